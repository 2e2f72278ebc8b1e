#include "cli/network_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace drafthorse {
namespace {

TableRow tensor_row(const std::string& part, const TensorView& tensor) {
  return {part, fmt::format("{}", fmt::join(tensor.shape, " x ")), format_text(tensor), tensor.bytes()};
}

void add_linear(std::vector<TableRow>& rows, const std::string& part, const Linear& linear) {
  rows.push_back(tensor_row(part, linear.weight));
  if (linear.bias) rows.push_back(tensor_row(part + " bias", *linear.bias));
}

void add_norm(std::vector<TableRow>& rows, const std::string& part, const std::optional<Norm>& norm) {
  if (norm && norm->weight) rows.push_back(tensor_row(part, *norm->weight));
}

void add_part(std::vector<TableRow>& rows, const Attention& attention) {
  add_linear(rows, "attention q", attention.q);
  add_linear(rows, "attention k", attention.k);
  add_linear(rows, "attention v", attention.v);
  add_norm(rows, "attention q norm", attention.q_norm);
  add_norm(rows, "attention k norm", attention.k_norm);
  add_linear(rows, "attention o", attention.o);
}

void add_part(std::vector<TableRow>& rows, const DeltaNet& delta) {
  add_linear(rows, "delta qkv", delta.qkv);
  add_linear(rows, "delta z", delta.z);
  add_linear(rows, "delta b", delta.b);
  add_linear(rows, "delta a", delta.a);
  rows.push_back(tensor_row("delta convolution", delta.conv));
  rows.push_back(tensor_row("delta decay", delta.decay));
  rows.push_back(tensor_row("delta dt bias", delta.dt_bias));
  add_norm(rows, "delta norm", delta.norm);
  add_linear(rows, "delta out", delta.out);
}

void add_part(std::vector<TableRow>& rows, const Mlp& mlp) {
  add_linear(rows, "mlp gate", mlp.gate);
  add_linear(rows, "mlp up", mlp.up);
  add_linear(rows, "mlp down", mlp.down);
}

// The experts are alike, so a row stands for all of them.
void add_part(std::vector<TableRow>& rows, const Moe& moe) {
  add_linear(rows, "router", moe.router);
  if (!moe.experts.empty()) {
    std::vector<TableRow> one;
    add_part(one, moe.experts.front());
    for (TableRow& row : one) {
      row.part = fmt::format("{} experts: {}", moe.experts.size(), row.part);
      row.bytes *= moe.experts.size();
      rows.push_back(std::move(row));
    }
  }
  if (moe.shared_gate) add_linear(rows, "shared gate", *moe.shared_gate);
  if (moe.shared) {
    const size_t first = rows.size();
    add_part(rows, *moe.shared);
    for (size_t i = first; i < rows.size(); ++i) rows[i].part = "shared " + rows[i].part;
  }
}

std::string describe(const Attention& attention) {
  std::string text = fmt::format("attention of {} heads, {} kv heads, head size {}", attention.heads,
                                 attention.kv_heads, attention.head_dim);
  if (attention.rope.dims > 0)
    text += fmt::format(", rope on {}{}", attention.rope.dims, attention.rope.interleaved ? " (interleaved)" : "");
  if (attention.gated) text += ", output gate";
  if (attention.window > 0) text += fmt::format(", window {}", attention.window);
  if (attention.softcap > 0) text += fmt::format(", softcap {}", attention.softcap);
  return text;
}

std::string describe(const Mlp& mlp) {
  return fmt::format("mlp of {} ({})", mlp.gate.out_features(), mlp.activation == Activation::silu ? "silu" : "gelu");
}

std::string describe(const DeltaNet& delta) {
  return fmt::format("delta net of {} value heads of {}, {} key heads of {}, convolution over {}{}{}",
                     delta.value_heads, delta.value_dim, delta.key_heads, delta.key_dim, delta.kernel,
                     delta.gate == Activation::sigmoid ? ", sigmoid gate" : "",
                     delta.tiled_heads ? ", tiled heads" : "");
}

std::string describe(const Moe& moe) {
  std::string text = fmt::format("{} of {} experts", moe.top_k, moe.experts.size());
  if (!moe.experts.empty()) text += ", each an " + describe(moe.experts.front());
  if (moe.shared) text += ", and a shared " + describe(*moe.shared);
  return text;
}

BlockKind describe_block(const Block& block) {
  BlockKind kind;
  add_norm(kind.rows, "norm before mixer", block.before_mixer);
  std::visit([&](const auto& mixer) { add_part(kind.rows, mixer); }, block.mixer);
  add_norm(kind.rows, "norm after mixer", block.after_mixer);
  add_norm(kind.rows, "norm before ffn", block.before_ffn);
  std::visit([&](const auto& ffn) { add_part(kind.rows, ffn); }, block.ffn);
  add_norm(kind.rows, "norm after ffn", block.after_ffn);
  kind.summary = std::visit([](const auto& mixer) { return describe(mixer); }, block.mixer) + "; " +
                 std::visit([](const auto& ffn) { return describe(ffn); }, block.ffn);
  for (const TableRow& row : kind.rows) kind.bytes += row.bytes;
  return kind;
}

bool same_kind(const BlockKind& a, const BlockKind& b) {
  if (a.summary != b.summary || a.rows.size() != b.rows.size()) return false;
  for (size_t i = 0; i < a.rows.size(); ++i) {
    if (a.rows[i].part != b.rows[i].part || a.rows[i].shape != b.rows[i].shape || a.rows[i].format != b.rows[i].format)
      return false;
  }
  return true;
}

}  // namespace

std::string format_text(const TensorView& tensor) {
  std::string text(name(tensor.format));
  if (tensor.format == Format::affine) text += fmt::format(" {}-bit", tensor.bits);
  if (tensor.group_size > 0) text += fmt::format(" group {}", tensor.group_size);
  return text;
}

std::vector<BlockKind> block_kinds(const Network& network) {
  std::vector<BlockKind> kinds;
  for (size_t i = 0; i < network.blocks.size(); ++i) {
    BlockKind kind = describe_block(network.blocks[i]);
    BlockKind* known = nullptr;
    for (BlockKind& other : kinds) {
      if (same_kind(other, kind)) known = &other;
    }
    if (!known) known = &kinds.emplace_back(std::move(kind));
    known->blocks.push_back(static_cast<int>(i));
  }
  return kinds;
}

std::vector<TableRow> outer_rows(const Network& network) {
  std::vector<TableRow> rows;
  rows.push_back(tensor_row(network.tied_head ? "embedding (and head)" : "embedding", network.embedding));
  add_norm(rows, "final norm", network.final_norm);
  if (!network.tied_head) add_linear(rows, "head", network.head);
  return rows;
}

std::vector<TableRow> head_rows(const Network& head) {
  std::vector<TableRow> rows;
  if (head.joined_input) {
    add_norm(rows, "norm of embedding", head.joined_input->embedding_norm);
    add_norm(rows, "norm of hidden", head.joined_input->hidden_norm);
    add_linear(rows, "joins both", head.joined_input->fc);
  }
  add_norm(rows, "final norm", head.final_norm);
  return rows;
}

std::string describe_head(const Network& network) {
  const bool embedding_first = !network.mtp || !network.mtp->joined_input || network.mtp->joined_input->embedding_first;
  return fmt::format("joined with hidden vectors {} the final norm ({}), {} first",
                     network.mtp_hidden == Hidden::before_norm ? "before" : "after",
                     network.mtp_hidden_known ? "as the checkpoint says" : "to be probed",
                     embedding_first ? "embedding" : "hidden");
}

std::string ranges_text(const std::vector<int>& indices) {
  std::string text;
  for (size_t i = 0; i < indices.size();) {
    size_t j = i;
    while (j + 1 < indices.size() && indices[j + 1] == indices[j] + 1) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", indices[i]);
    if (j > i) text += fmt::format("-{}", indices[j]);
    i = j + 1;
  }
  return text;
}

}  // namespace drafthorse

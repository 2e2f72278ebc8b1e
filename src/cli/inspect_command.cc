// inspect: what a model is made of, and the bound on its speed here.

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "backend/bench_model.h"
#include "cli/commands.h"
#include "cli/model_setup.h"
#include "cli/network_table.h"
#include "cli/progress_bar.h"
#include "completion/memory_budget.h"
#include "completion/model_settings.h"
#include "core/topology.h"

namespace drafthorse {
namespace {

namespace json = boost::json;

struct Inspection {
  std::shared_ptr<const Checkpoint> checkpoint;
  Network network;
  std::shared_ptr<const Tokenizer> tokenizer;
  ChatTemplates templates;
  std::vector<int32_t> stop_tokens;
  MemoryPlan memory;
  int threads = 1;
  double bandwidth = 0;  // bytes a second
  uint64_t bytes_per_token = 0;
  double bound() const { return bytes_per_token ? bandwidth / static_cast<double>(bytes_per_token) : 0; }
};

Result<Inspection> inspect(const Options& options) {
  Result<LoadOptions> located = locate_model(options);
  if (!located) return located.error();
  Inspection result;
  auto checkpoint = Checkpoint::open(located->path);
  if (!checkpoint) return checkpoint.error();
  result.checkpoint = *checkpoint;
  auto network = read_network(*checkpoint, {.mtp = located->mtp});
  if (!network) return network.error();
  result.network = std::move(*network);
  auto tokenizer = load_tokenizer(**checkpoint);
  if (!tokenizer) return tokenizer.error();
  result.tokenizer = *tokenizer;
  auto templates = load_chat_templates(**checkpoint);
  if (!templates) return templates.error();
  result.templates = *templates;
  auto stop_tokens = load_stop_tokens(**checkpoint, **tokenizer);
  if (!stop_tokens) return stop_tokens.error();
  result.stop_tokens = *stop_tokens;
  auto plan = plan_memory(result.network, options.memory, options.context, 0);
  if (!plan) return plan.error();
  result.memory = *plan;
  result.bytes_per_token = bytes_per_token(result.network);
  result.threads = options.threads > 0 ? options.threads : read_cpu_limits().workers();
  result.bandwidth = measure_read_bandwidth(result.threads);
  return result;
}

json::array rows_json(const std::vector<TableRow>& rows) {
  json::array array;
  for (const TableRow& row : rows)
    array.push_back({{"part", row.part}, {"shape", row.shape}, {"format", row.format}, {"bytes", row.bytes}});
  return array;
}

std::string token_text(const Inspection& inspection, int32_t id) {
  return std::string(inspection.tokenizer->token_bytes(id));
}

json::array kinds_json(const Network& network) {
  json::array kinds;
  for (const BlockKind& kind : block_kinds(network)) {
    kinds.push_back({{"blocks", json::value_from(kind.blocks)},
                     {"summary", kind.summary},
                     {"bytes", kind.bytes},
                     {"parts", rows_json(kind.rows)}});
  }
  return kinds;
}

// null for a model without a drafting head.
json::value head_json(const Network& network) {
  if (!network.mtp) return nullptr;
  const Network& head = *network.mtp;
  return {{"path", head.checkpoint->path().string()},
          {"hidden", network.mtp_hidden == Hidden::before_norm ? "pre_norm" : "post_norm"},
          {"hidden_known", network.mtp_hidden_known},
          {"embedding_first", !head.joined_input || head.joined_input->embedding_first},
          {"block_kinds", kinds_json(head)},
          {"outside", rows_json(head_rows(head))},
          {"bytes_per_token", bytes_per_token(head)}};
}

json::object inspection_json(const Inspection& inspection) {
  const Network& network = inspection.network;
  json::array stops;
  for (int32_t id : inspection.stop_tokens) stops.push_back({{"id", id}, {"text", token_text(inspection, id)}});
  json::object tokenizer = {{"vocab_size", inspection.tokenizer->vocab_size()},
                            {"added_tokens", inspection.tokenizer->added_tokens().size()},
                            {"adds_bos", inspection.tokenizer->adds_bos()},
                            {"stop_tokens", stops}};
  return {{"path", inspection.checkpoint->path().string()},
          {"name", network.name},
          {"family", network.family},
          {"hidden", network.hidden},
          {"vocab", network.vocab},
          {"blocks", network.blocks.size()},
          {"context_length", network.context_length},
          {"block_kinds", kinds_json(network)},
          {"outside", rows_json(outer_rows(network))},
          {"mtp", head_json(network)},
          {"bytes_per_token", inspection.bytes_per_token},
          {"tokenizer", tokenizer},
          {"chat_template", inspection.templates.chat != nullptr},
          {"memory",
           {{"budget", inspection.memory.budget},
            {"weights", inspection.memory.weights},
            {"kv", inspection.memory.kv},
            {"context", inspection.memory.context},
            {"kv_bytes_per_position", kv_bytes_per_position(network)}}},
          {"machine",
           {{"threads", inspection.threads},
            {"read_bandwidth", inspection.bandwidth},
            {"tokens_per_second_bound", inspection.bound()}}}};
}

void print_rows(const std::vector<TableRow>& rows) {
  for (const TableRow& row : rows)
    fmt::print("  {:<22} {:<16} {:<22} {:>9}\n", row.part, row.shape, row.format, human_bytes(row.bytes));
}

// Printable, so that a hostile vocabulary cannot write to the terminal.
std::string printable(const std::string& text) {
  std::string result;
  for (unsigned char c : text)
    result += c < 0x20 || c == 0x7f ? fmt::format("\\x{:02x}", c) : std::string(1, static_cast<char>(c));
  return result;
}

void print_kinds(const Network& network) {
  for (const BlockKind& kind : block_kinds(network)) {
    fmt::print("\n{} x block {} ({} each): {}\n", kind.blocks.size(), ranges_text(kind.blocks), human_bytes(kind.bytes),
               kind.summary);
    print_rows(kind.rows);
  }
}

void print_head(const Network& network) {
  if (!network.mtp) return;
  fmt::print("\ndrafting head {}: {}; reads {} a token\n", network.mtp->checkpoint->path().string(),
             describe_head(network), human_bytes(bytes_per_token(*network.mtp)));
  print_rows(head_rows(*network.mtp));
  print_kinds(*network.mtp);
}

void print_network(const Inspection& inspection) {
  const Network& network = inspection.network;
  fmt::print("{}\n", inspection.checkpoint->path().string());
  fmt::print("{}: family {}, {} blocks, hidden size {}, vocabulary {}, made for {} positions\n\n",
             printable(network.name), network.family, network.blocks.size(), network.hidden, network.vocab,
             network.context_length);
  print_rows(outer_rows(network));
  print_kinds(network);
  print_head(network);
}

void print_text_side(const Inspection& inspection) {
  std::string stops;
  for (int32_t id : inspection.stop_tokens)
    stops += fmt::format("{}{} {}", stops.empty() ? "" : ", ", id, printable(token_text(inspection, id)));
  fmt::print("\ntokenizer      {} tokens, {} of them added{}\n", inspection.tokenizer->vocab_size(),
             inspection.tokenizer->added_tokens().size(),
             inspection.tokenizer->adds_bos() ? "; a prompt begins with BOS" : "");
  fmt::print("chat template  {}\n", inspection.templates.chat ? "yes" : "none: completions only");
  fmt::print("stop tokens    {}\n", stops.empty() ? "none" : stops);
}

void print_machine(const Inspection& inspection) {
  const MemoryPlan& memory = inspection.memory;
  fmt::print("\nmemory         {} of weights and {} of KV for {} positions ({} each) within {}\n",
             human_bytes(memory.weights), human_bytes(memory.kv), memory.context,
             human_bytes(kv_bytes_per_position(inspection.network)), human_bytes(memory.budget));
  fmt::print("a token reads  {} of weights\n", human_bytes(inspection.bytes_per_token));
  fmt::print("this machine   reads {}/s with {} {}: at most {:.0f} tokens/s one by one{}\n",
             human_bytes(static_cast<uint64_t>(inspection.bandwidth)), inspection.threads,
             inspection.threads == 1 ? "thread" : "threads", inspection.bound(),
             inspection.bytes_per_token < (64u << 20) ? " (more where the weights fit a cache)" : "");
}

}  // namespace

Status inspect_command(const Options& options) {
  Result<Inspection> inspection = inspect(options);
  if (!inspection) return inspection.error();
  if (options.json) {
    fmt::print("{}\n", json::serialize(inspection_json(*inspection)));
    return {};
  }
  print_network(*inspection);
  print_text_side(*inspection);
  print_machine(*inspection);
  return {};
}

}  // namespace drafthorse

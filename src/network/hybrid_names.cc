#include "network/hybrid_names.h"

#include <algorithm>

#include <fmt/format.h>

namespace drafthorse {

const BlockNames kHuggingFaceBlock = {.before_mixer = "input_layernorm",
                                      .before_ffn = "post_attention_layernorm",
                                      .q = "self_attn.q_proj",
                                      .k = "self_attn.k_proj",
                                      .v = "self_attn.v_proj",
                                      .o = "self_attn.o_proj",
                                      .q_norm = "self_attn.q_norm",
                                      .k_norm = "self_attn.k_norm",
                                      .qkv = "linear_attn.in_proj_qkv",
                                      .z = "linear_attn.in_proj_z",
                                      .b = "linear_attn.in_proj_b",
                                      .a = "linear_attn.in_proj_a",
                                      .delta_norm = "linear_attn.norm",
                                      .delta_out = "linear_attn.out_proj",
                                      .conv = "linear_attn.conv1d.weight",
                                      .decay = "linear_attn.A_log",
                                      .dt_bias = "linear_attn.dt_bias",
                                      .gate = "mlp.gate_proj",
                                      .up = "mlp.up_proj",
                                      .gate_up = "mlp.gate_up_proj",
                                      .down = "mlp.down_proj",
                                      .router = "mlp.gate",
                                      .shared_router = "mlp.shared_expert_gate",
                                      .shared_gate = "mlp.shared_expert.gate_proj",
                                      .shared_up = "mlp.shared_expert.up_proj",
                                      .shared_gate_up = "mlp.shared_expert.gate_up_proj",
                                      .shared_down = "mlp.shared_expert.down_proj"};

const BlockNames kGgufBlock = {.before_mixer = "attn_norm",
                               .before_ffn = "post_attention_norm",
                               .q = "attn_q",
                               .k = "attn_k",
                               .v = "attn_v",
                               .o = "attn_output",
                               .q_norm = "attn_q_norm",
                               .k_norm = "attn_k_norm",
                               .qkv = "attn_qkv",
                               .z = "attn_gate",
                               .b = "ssm_beta",
                               .a = "ssm_alpha",
                               .delta_norm = "ssm_norm",
                               .delta_out = "ssm_out",
                               .conv = "ssm_conv1d.weight",
                               .decay = "ssm_a",
                               .dt_bias = "ssm_dt.bias",
                               .decay_is_log = false,
                               .tiled_heads = true,
                               .gate = "ffn_gate",
                               .up = "ffn_up",
                               .gate_up = "ffn_gate_up",
                               .down = "ffn_down",
                               .router = "ffn_gate_inp",
                               .shared_router = "ffn_gate_inp_shexp",
                               .shared_gate = "ffn_gate_shexp",
                               .shared_up = "ffn_up_shexp",
                               .shared_gate_up = "ffn_gate_up_shexp",
                               .shared_down = "ffn_down_shexp"};

const BlockNames kGgufAttentionBlock = [] {
  BlockNames names = kGgufBlock;
  names.before_ffn = "ffn_norm";
  return names;
}();

namespace {

bool has_prefix(const Checkpoint& checkpoint, std::string_view prefix) {
  return std::any_of(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                     [&](const TensorView& tensor) { return tensor.name.starts_with(prefix); });
}

// The first of `names` that the checkpoint has as a weight; else the first.
template <size_t N>
std::string first_there(const Checkpoint& checkpoint, const std::string (&names)[N]) {
  for (const std::string& name : names) {
    if (checkpoint.find(name + ".weight")) return name;
  }
  return names[0];
}

std::string find_trunk_prefix(const Checkpoint& checkpoint) {
  constexpr std::string_view kPrefixes[] = {"model.language_model.", "language_model.model.", "model.", ""};
  for (const char* name : {"embed_tokens.weight", "norm.weight", "layers.0.input_layernorm.weight"}) {
    for (const std::string_view prefix : kPrefixes) {
      if (checkpoint.find(std::string(prefix) + name)) return std::string(prefix);
    }
  }
  return "model.";
}

}  // namespace

std::string ModelNames::layer(int64_t index) const {
  return block != &kHuggingFaceBlock ? fmt::format("blk.{}.", index) : fmt::format("{}layers.{}.", prefix, index);
}

ModelNames find_model_names(const Checkpoint& checkpoint, bool hybrid) {
  if (checkpoint.kind() == Checkpoint::Kind::gguf) {
    return {hybrid ? &kGgufBlock : &kGgufAttentionBlock, "", "token_embd", "output_norm", "output"};
  }
  ModelNames names;
  names.block = &kHuggingFaceBlock;
  names.prefix = find_trunk_prefix(checkpoint);
  names.embedding = names.prefix + "embed_tokens";
  names.final_norm = names.prefix + "norm";
  const std::string heads[] = {"lm_head", "language_model.lm_head", names.prefix + "lm_head"};
  names.head = first_there(checkpoint, heads);
  return names;
}

HeadNames find_head_names(const Checkpoint& checkpoint, int64_t block_index) {
  HeadNames names;
  if (checkpoint.kind() == Checkpoint::Kind::gguf) {
    names.block = &kGgufBlock;
    names.layer = fmt::format("blk.{}.", block_index);
    names.found = has_prefix(checkpoint, names.layer + "nextn.");
    names.fc = names.layer + "nextn.eh_proj";
    names.embedding_norm = names.layer + "nextn.enorm";
    names.hidden_norm = names.layer + "nextn.hnorm";
    names.final_norm = names.layer + "nextn.shared_head_norm";
    return names;
  }
  names.block = &kHuggingFaceBlock;
  names.prefix = "mtp.";
  for (const char* prefix :
       {"mtp.", "language_model.mtp.", "model.mtp.", "model.language_model.mtp.", "language_model.model.mtp."}) {
    if (names.found || !has_prefix(checkpoint, prefix)) continue;
    names.found = true;
    names.prefix = prefix;
  }
  // A file that is nothing but a head has no prefix.
  for (const char* own : {"fc.weight", "pre_fc_norm_hidden.weight", "pre_fc_norm_embedding.weight"}) {
    if (names.found || !checkpoint.find(own)) continue;
    names.found = true;
    names.prefix = "";
  }
  names.layer = names.prefix + "layers.0.";
  names.fc = names.prefix + "fc";
  names.embedding_norm = names.prefix + "pre_fc_norm_embedding";
  names.hidden_norm = names.prefix + "pre_fc_norm_hidden";
  names.final_norm = names.prefix + "norm";
  return names;
}

bool is_other_sense(std::string_view name) {
  for (const std::string_view prefix : {"vision_tower.", "model.visual.", "visual.", "model.vision_tower.",
                                        "vision_model.", "multi_modal_projector.", "audio_tower."}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace drafthorse

// Bad checkpoints of the hybrid family: each is refused with a message that names the file, what was expected and what
// was found. The cases are made from tiny sound models, one change at a time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json/parse.hpp>

#include "network/hybrid_parts.h"

namespace drafthorse::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::filesystem::path& path) {
  const auto checkpoint = Checkpoint::open(path);
  if (!checkpoint) return checkpoint.error().message;
  const auto network = read_network(*checkpoint);
  return network ? "" : network.error().message;
}

std::string error_of(const HybridFolder& folder) {
  const TempFolder temp;
  folder.save(temp / "m");
  return error_of(temp / "m");
}

std::string error_of(const HybridGguf& gguf) {
  const TempFolder temp;
  gguf.save(temp / "m.gguf");
  return error_of(temp / "m.gguf");
}

std::vector<TinyHybrid> two_models() {
  TinyHybrid dense, mixture;
  dense.layers = mixture.layers = 2;
  dense.tied = false;
  mixture.mixture = true;
  return {dense, mixture};
}

// A tensor with one row fewer.
FileTensor shortened(FileTensor tensor) {
  tensor.data.resize(tensor.data.size() - tensor.data.size() / static_cast<size_t>(tensor.shape[0]));
  --tensor.shape[0];
  return tensor;
}

FileTensor reshaped(FileTensor tensor) {
  tensor.shape.insert(tensor.shape.begin() + 1, 1);
  return tensor;
}

// A file without a head of its own is tied to its embedding, unless it says that it is not.
template <class Model>
void expect_every_tensor_is_checked(const Model& sound, const std::function<std::string(const Model&)>& error) {
  ASSERT_EQ(error(sound), "");
  for (size_t i = 0; i < sound.tensors.size(); ++i) {
    const FileTensor& tensor = sound.tensors[i];
    SCOPED_TRACE(tensor.name);
    const std::string named = "tensor \"" + tensor.name + "\": expected shape " + shape_text(tensor.shape);
    Model bad = sound;
    bad.tensors.erase(bad.tensors.begin() + static_cast<int64_t>(i));
    EXPECT_THAT(error(bad), AllOf(HasSubstr(named), HasSubstr("it is missing")));
    bad = sound;
    bad.tensors[i].name += "x";
    EXPECT_THAT(error(bad), HasSubstr(named));
    bad = sound;
    bad.tensors[i] = shortened(tensor);
    EXPECT_THAT(error(bad), AllOf(HasSubstr("tensor \"" + tensor.name + "\""),
                                  HasSubstr("found " + shape_text(bad.tensors[i].shape))));
    bad = sound;
    bad.tensors[i].format = Format::i32;
    EXPECT_THAT(error(bad), AllOf(HasSubstr("tensor \"" + tensor.name + "\""), HasSubstr("found i32")));
  }
}

TEST(HybridErrors, EveryTensorOfAFolderIsChecked) {
  for (const TinyHybrid& model : two_models()) {
    expect_every_tensor_is_checked<HybridFolder>(hugging_face_hybrid(model),
                                                 [](const HybridFolder& folder) { return error_of(folder); });
  }
}

TEST(HybridErrors, EveryTensorOfAnMlxFolderIsChecked) {
  TinyHybrid model;
  model.mixture = true;
  model.layers = 2;
  expect_every_tensor_is_checked<HybridFolder>(mlx_hybrid(model),
                                               [](const HybridFolder& folder) { return error_of(folder); });
}

// GGUF has no key that says that the head is not tied.
TEST(HybridErrors, EveryTensorOfAGgufFileIsChecked) {
  for (const bool mixture : {false, true}) {
    TinyHybrid model;
    model.mixture = mixture;
    model.layers = 2;
    expect_every_tensor_is_checked<HybridGguf>(gguf_hybrid(model),
                                               [](const HybridGguf& gguf) { return error_of(gguf); });
  }
}

TEST(HybridErrors, TensorsWithoutAPlace) {
  for (const char* name : {"model.layers.0.mlp.extra.weight", "model.layers.4.input_layernorm.weight",
                           "model.layers.0.self_attn.q_proj.weight", "model.layers.1.linear_attn.A_log",
                           "model.layers.0.linear_attn.in_proj_qkv.bias", "mtp.layers.1.mlp.up_proj.weight",
                           "mtp.embed_tokens.weight", "model.layers.0.mlp.experts.gate_up_proj", "extra"}) {
    HybridFolder folder = hugging_face_hybrid({});
    folder.tensors.push_back({name, Format::f32, {4}, Bytes(16)});
    EXPECT_THAT(error_of(folder), AllOf(HasSubstr(std::string("tensor \"") + name + "\" f32 [4]"),
                                        HasSubstr("has no place in this architecture")));
  }
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.ssm_extra", "blk.5.attn_norm.weight",
                           "blk.4.nextn.embed_tokens.weight", "blk.0.ffn_gate_exps.weight"}) {
    HybridGguf gguf = gguf_hybrid({});
    gguf.tensors.push_back({name, Format::f32, {4}, Bytes(16)});
    EXPECT_THAT(error_of(gguf), HasSubstr(std::string("tensor \"") + name + "\" f32 [4] has no place"));
  }
}

TEST(HybridErrors, OtherRanksAndLayouts) {
  for (const char* name :
       {"model.layers.0.linear_attn.in_proj_z.weight", "model.layers.0.linear_attn.conv1d.weight",
        "model.layers.0.mlp.experts.down_proj", "model.layers.0.mlp.shared_expert_gate.weight", "mtp.fc.weight"}) {
    TinyHybrid model;
    model.mixture = true;
    HybridFolder folder = hugging_face_hybrid(model);
    FileTensor& tensor = folder.tensor(name);
    const std::string expected = shape_text(tensor.shape);
    tensor = reshaped(tensor);
    EXPECT_THAT(error_of(folder), HasSubstr(std::string("tensor \"") + name + "\": expected shape " + expected +
                                            ", found " + shape_text(tensor.shape)));
  }
  // Half of a fused projection, and experts stored in different ways.
  TinyHybrid model;
  model.mixture = true;
  HybridFolder folder = mlx_hybrid(model);
  folder.erase("language_model.model.layers.0.mlp.switch_mlp.up_proj.weight");
  EXPECT_THAT(error_of(folder),
              HasSubstr("mlp.switch_mlp.up_proj.weight\": expected shape [8, 32, 64], but it is missing"));
}

// One change of config.json, and what the message must name.
struct BadConfig {
  const char* changes;
  const char* expected;
};

std::string config_error(const TinyHybrid& model, const char* changes) {
  HybridFolder folder = hugging_face_hybrid(model);
  const boost::json::value changed = boost::json::parse(changes);
  for (const auto& item : changed.as_object()) {
    if (item.value() == "ERASE") {
      folder.config.erase(item.key());
    } else {
      folder.config[item.key()] = item.value();
    }
  }
  return error_of(folder);
}

TEST(HybridErrors, ConfigsOfDenseModels) {
  const BadConfig cases[] = {
      {R"({"model_type":"qwen4_exp"})", "model_type \"qwen4_exp\" is not supported"},
      {R"({"model_type":7})", "key \"model_type\": expected a string"},
      {R"({"num_attention_heads":0})", "key \"num_attention_heads\": expected an integer from 1"},
      {R"({"num_attention_heads":3,"num_key_value_heads":2})", "3 heads are no multiple of 2 kv heads"},
      {R"({"num_key_value_heads":-1})", "key \"num_key_value_heads\""},
      {R"({"head_dim":0})", "key \"head_dim\""},
      {R"({"head_dim":2147483646})", "are too large"},
      {R"({"head_dim":1000000,"num_attention_heads":2147483647,"num_key_value_heads":1})", "are too large"},
      {R"({"hidden_size":2147483647})", "are too large"},
      {R"({"hidden_size":1e30})", "key \"hidden_size\""},
      {R"({"hidden_size":"64"})", "key \"hidden_size\""},
      {R"({"hidden_size":"ERASE"})", "key \"hidden_size\": expected a positive integer, but it is missing"},
      {R"({"intermediate_size":"ERASE"})", "intermediate_size"},
      {R"({"intermediate_size":97})", "expected shape [97, 64], found [96, 64]"},
      {R"({"intermediate_size":2147483647})", "are too large"},
      {R"({"num_hidden_layers":0})", "key \"num_hidden_layers\""},
      {R"({"num_hidden_layers":3})", "key \"layer_types\": expected 3 entries, found 4"},
      {R"({"num_hidden_layers":3,"layer_types":"ERASE"})", "has no place"},
      {R"({"num_hidden_layers":65,"layer_types":"ERASE"})", "tensor \"model.layers.4."},
      {R"({"num_hidden_layers":2147483647,"layer_types":"ERASE"})", "key \"num_hidden_layers\": expected at most"},
      {R"({"vocab_size":257})", "expected shape [257, 64], found [256, 64]"},
      {R"({"vocab_size":0})", "key \"vocab_size\""},
      {R"({"layer_types":["linear_attention"]})", "key \"layer_types\": expected 4 entries, found 1"},
      {R"({"layer_types":["linear_attention","sliding_attention","full_attention","full_attention"]})",
       "\"sliding_attention\" is not implemented"},
      {R"({"layer_types":[1,2,3,4]})", "key \"layer_types\": expected an array of strings"},
      {R"({"layer_types":["full_attention","full_attention","full_attention","full_attention"]})",
       "tensor \"model.layers.0.self_attn.q_proj.weight\""},
      {R"({"full_attention_interval":0,"layer_types":"ERASE"})", "key \"full_attention_interval\""},
      {R"({"full_attention_interval":3,"layer_types":"ERASE"})", "tensor \"model.layers.1.linear_attn."},
      {R"({"linear_num_key_heads":0})", "key \"linear_num_key_heads\""},
      {R"({"linear_num_key_heads":"ERASE"})", "key \"linear_num_key_heads\": expected a positive integer, but"},
      {R"({"linear_num_value_heads":0})", "key \"linear_num_value_heads\""},
      {R"({"linear_num_value_heads":3})", "3 value heads are no multiple of its 2 key heads"},
      {R"({"linear_num_value_heads":2147483646})", "are too large"},
      {R"({"linear_num_key_heads":1073741824,"linear_num_value_heads":1073741824,"linear_key_head_dim":65536})",
       "are too large"},
      {R"({"linear_key_head_dim":0})", "key \"linear_key_head_dim\""},
      {R"({"linear_key_head_dim":17})", "expected shape [132, 64], found [128, 64]"},
      {R"({"linear_value_head_dim":2147483647})", "are too large"},
      {R"({"linear_conv_kernel_dim":3})", "expected shape [128, 1, 3], found [128, 1, 4]"},
      {R"({"linear_conv_kernel_dim":1})", "expected a convolution over 2 to 64 rows, found 1"},
      {R"({"linear_conv_kernel_dim":1000000})", "expected a convolution over 2 to 64 rows, found 1000000"},
      {R"({"output_gate_type":"tanh"})", "key \"output_gate_type\": \"tanh\" is not implemented"},
      {R"({"attn_output_gate":false})", "self_attn.q_proj.weight\": expected shape [64, 64], found [128, 64]"},
      {R"({"attn_output_gate":1})", "key \"attn_output_gate\": expected true or false"},
      {R"({"attention_bias":true})", "tensor \"model.layers.1.self_attn.q_proj.bias\": expected shape [128]"},
      {R"({"hidden_act":"gelu"})", "\"gelu\" is not implemented"},
      {R"({"rms_norm_eps":0})", "the norms' eps is 0"},
      {R"({"rms_norm_eps":-1})", "the norms' eps is -1"},
      {R"({"rms_norm_eps":"x"})", "key \"rms_norm_eps\""},
      {R"({"max_position_embeddings":0})", "key \"max_position_embeddings\""},
      {R"({"rope_parameters":{"partial_rotary_factor":0}})", "partial_rotary_factor"},
      {R"({"rope_parameters":{"partial_rotary_factor":1.5}})", "partial_rotary_factor"},
      {R"({"rope_parameters":{"partial_rotary_factor":0.04}})", "rotary dimensions"},
      {R"({"rope_parameters":{"rope_theta":1}})", "the rotary base is 1"},
      {R"({"rope_parameters":{"rope_type":"longrope"}})", "\"longrope\" is not implemented"},
      {R"({"rope_parameters":{"unknown":1}})", "these keys are not understood"},
      {R"({"rope_parameters":{"rope_theta":5},"rope_scaling":{"rope_theta":6}})", "contradicts the key"},
      {R"({"rope_parameters":[]})", "key \"rope_parameters\": expected an object"},
      {R"({"use_sliding_window":true})", "key \"use_sliding_window\": true is not implemented"},
      {R"({"tie_word_embeddings":false})", "tensor \"lm_head.weight\": expected shape [256, 64], but it is missing"},
      {R"({"mtp_num_hidden_layers":2})", "a drafting head of 2 layers is not implemented"},
      {R"({"mtp_use_dedicated_embeddings":true})", "key \"mtp_use_dedicated_embeddings\": true is not implemented"},
      {R"({"hyper_connections":4})", "these keys are not understood and may change what the model computes"},
      {R"({"architectures":["Qwen3_5ForSequenceClassification"]})", "is not a language model with a head"},
      {R"({"text_config":{}})", "\"text_config\": key \"hidden_size\": expected a positive integer, but it is missing"},
      {R"({"text_config":{"model_type":"qwen4_exp"}})", "key \"model_type\": \"qwen4_exp\" is another architecture"},
      {R"({"num_experts":8})", "key \"num_experts_per_tok\": expected a positive integer, but it is missing"},
      {R"({"num_experts":"many"})", "key \"num_experts\": expected an integer"},
      {R"({"num_experts":-1,"num_experts_per_tok":"x"})", "key \"num_experts_per_tok\""},
  };
  const TinyHybrid model;
  for (const BadConfig& bad : cases)
    EXPECT_THAT(config_error(model, bad.changes), HasSubstr(bad.expected)) << bad.changes;
}

TEST(HybridErrors, ConfigsOfMixtures) {
  const BadConfig cases[] = {
      {R"({"num_experts":7})", "tensor \"model.layers.0.mlp.gate.weight\": expected shape [7, 64], found [8, 64]"},
      {R"({"num_experts":0})", "expected the size of the mlp"},
      {R"({"num_experts":0,"intermediate_size":32})", "tensor \"model.layers.0.mlp.gate_proj.weight\""},
      {R"({"num_experts":2147483647})", "tensor \"model.layers.0.mlp.gate.weight\": expected shape [2147483647, 64]"},
      {R"({"num_experts":4294967297})", "key \"num_experts\": expected at most 2147483647"},
      {R"({"num_experts":1e40})", "key \"num_experts\": expected an integer"},
      {R"({"num_local_experts":4})", "key \"num_local_experts\": it contradicts \"num_experts\": 4 and 8"},
      {R"({"num_experts_per_tok":9})", "expected 1 to 8 experts a token, found 9"},
      {R"({"num_experts_per_tok":0})", "key \"num_experts_per_tok\""},
      {R"({"moe_intermediate_size":0})", "key \"moe_intermediate_size\""},
      {R"({"moe_intermediate_size":33})", "experts.gate_up_proj\": expected shape [8, 66, 64], found [8, 64, 64]"},
      {R"({"moe_intermediate_size":2147483647})", "the experts' size is 2147483647"},
      {R"({"shared_expert_intermediate_size":31})", "shared_expert.gate_proj.weight\": expected shape [31, 64]"},
      {R"({"shared_expert_intermediate_size":0})", "shared_expert"},
      {R"({"shared_expert_intermediate_size":-5})", "key \"shared_expert_intermediate_size\""},
      {R"({"norm_topk_prob":"yes"})", "key \"norm_topk_prob\": expected true or false"},
      {R"({"decoder_sparse_step":0})", "key \"decoder_sparse_step\""},
      {R"({"mlp_only_layers":[0],"intermediate_size":96})", "tensor \"model.layers.0.mlp.gate_proj.weight\""},
      {R"({"mlp_only_layers":"all"})", "key \"mlp_only_layers\": expected an array of integers"},
      {R"({"mlp_only_layers":[0.5]})", "key \"mlp_only_layers\": expected an array of integers"},
  };
  TinyHybrid model;
  model.mixture = true;
  for (const BadConfig& bad : cases)
    EXPECT_THAT(config_error(model, bad.changes), HasSubstr(bad.expected)) << bad.changes;
}

TEST(HybridErrors, GgufMetadata) {
  struct BadKey {
    const char* key;
    GgufWriter::Value value;
    const char* expected;
  };
  const std::vector<BadKey> cases = {
      {"qwen35.ssm.group_count", 0u, "0 key heads"},
      {"qwen35.ssm.group_count", 3u, "4 value heads are no multiple of its 3 key heads"},
      {"qwen35.ssm.time_step_rank", 0u, "qwen35.ssm.inner_size"},
      {"qwen35.ssm.time_step_rank", 5u,
       "key \"qwen35.ssm.inner_size\": expected a multiple of the 5 value heads, found 64"},
      {"qwen35.ssm.state_size", 0u, "4 value heads of 16"},
      {"qwen35.ssm.state_size", 4000000000u, "key \"qwen35.ssm.state_size\""},
      {"qwen35.ssm.conv_kernel", 1u, "expected a convolution over 2 to 64 rows"},
      {"qwen35.ssm.conv_kernel", std::string("4"), "key \"qwen35.ssm.conv_kernel\""},
      {"qwen35.full_attention_interval", 0u, "key \"qwen35.full_attention_interval\""},
      {"qwen35.nextn_predict_layers", 2u, "2 drafting blocks are not implemented"},
      {"qwen35.nextn_predict_layers", 0u, "blk.4."},
      {"qwen35.block_count", 1000u, "1000 blocks, but the file has"},
      {"qwen35.block_count", 6u, "tensor \"blk.4."},
      {"qwen35.block_count", 0u, "layers 0"},
      {"qwen35.attention.head_count", 0u, "heads 0"},
      {"qwen35.attention.head_count_kv", std::vector<int32_t>{0, 1, 0, 2, 0}, "layers with different sizes"},
      {"qwen35.attention.value_length", 16u, "expected the key length 32, found 16"},
      {"qwen35.rope.dimension_count", 33u, "rotary dimensions"},
      {"qwen35.expert_count", 8u, "key \"qwen35.expert_used_count\": expected an integer, but it is missing"},
      {"qwen35.expert_gating_func", 2u, "only softmax"},
      {"qwen35.expert_weights_scale", 2.5f, "only 1 is supported"},
      {"qwen35.hyper_connections", 4u, "these metadata keys are not understood"},
      {"qwen35.attention.sliding_window", 128u, "this family has no window"},
      {"general.architecture", std::string("qwen4exp"), "general.architecture \"qwen4exp\" is not supported"},
  };
  for (const BadKey& bad : cases) {
    HybridGguf gguf = gguf_hybrid({});
    gguf.set(bad.key, bad.value);
    EXPECT_THAT(error_of(gguf), HasSubstr(bad.expected)) << bad.key;
  }
  // Linear layers may say that they have no kv heads.
  HybridGguf gguf = gguf_hybrid({});
  gguf.set("qwen35.attention.head_count_kv", std::vector<int32_t>{0, 1, 0, 1, 1});
  EXPECT_EQ(error_of(gguf), "");
}

TEST(HybridErrors, FusedProjectionsOfTheWrongSize) {
  TinyHybrid model;
  HybridFolder folder = hugging_face_hybrid(model);
  folder.config["model_type"] = "qwen3_next";
  folder.tensors.push_back(
      {"model.layers.0.linear_attn.in_proj_qkvz.weight", Format::f32, {191, 64}, Bytes(191 * 256)});
  EXPECT_THAT(error_of(folder), HasSubstr("in_proj_qkvz.weight\": expected shape [192, 64], found [191, 64]"));
  folder.tensors.back() = {"model.layers.0.linear_attn.in_proj_ba.weight", Format::f32, {8, 63}, Bytes(8 * 252)};
  EXPECT_THAT(error_of(folder), HasSubstr("in_proj_ba.weight\": expected shape [8, 64], found [8, 63]"));
}

// Cut off anywhere, a file is refused; with any byte of its header changed it is refused or read, and never crashes.
TEST(HybridErrors, TruncatedAndDamagedFiles) {
  TinyHybrid model;
  model.mixture = true;
  model.layers = 2;
  const TempFolder temp;
  hugging_face_hybrid(model).save(temp / "m");
  gguf_hybrid(model).save(temp / "m.gguf");
  for (const auto& path : {temp / "m/model.safetensors", temp / "m.gguf"}) {
    Bytes sound(std::filesystem::file_size(path));
    std::ifstream(path, std::ios::binary)
        .read(reinterpret_cast<char*>(sound.data()), static_cast<int64_t>(sound.size()));
    const std::filesystem::path model_path = path.extension() == ".gguf" ? path : path.parent_path();
    for (size_t size = 0; size < sound.size(); size += 1 + sound.size() / 37) {
      save(path, std::span(sound).first(size));
      EXPECT_THAT(error_of(model_path), HasSubstr(path.string())) << size;
    }
    Random random(7);
    for (int round = 0; round < 150; ++round) {
      Bytes damaged = sound;
      for (int i = 0; i < 3; ++i) {
        damaged[static_cast<size_t>(random.below(6000))] = static_cast<std::byte>(random.below(256));
      }
      save(path, damaged);
      (void)error_of(model_path);
    }
    save(path, sound);
    EXPECT_EQ(error_of(model_path), "");
  }
}

}  // namespace
}  // namespace drafthorse::test

// config.json and GGUF metadata: what published files hold is accepted, what would change the maths is refused by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/json/parse.hpp>

#include "support/tiny_models.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;

// A tiny Hugging Face checkpoint whose config.json has keys added or replaced.
struct Tiny {
  TempFolder temp;
  TinyModel model;
  std::string changes = "{}";

  Result<Network> read() {
    const auto folder = write_tiny_hf(temp / "m", model);
    boost::json::object config = tiny_config(model);
    const boost::json::value changed = boost::json::parse(changes);
    for (const auto& item : changed.as_object()) config[item.key()] = item.value();
    save_text(folder / "config.json", boost::json::serialize(config));
    return read_network(open_checkpoint(folder));
  }
  std::string error() {
    const auto network = read();
    return network.ok() ? "" : network.error().message;
  }
  Network network() {
    auto result = read();
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }
};

std::string error_with(const std::string& changes, const std::string& family = "llama") {
  Tiny tiny;
  tiny.model.family = family;
  tiny.changes = changes;
  return tiny.error();
}

const Attention& attention(const Network& network, size_t block) {
  return std::get<Attention>(network.blocks[block].mixer);
}

// The keys beside the sizes that published checkpoints of each family carry.
TEST(Config, PublishedKeysAreAccepted) {
  const char* const kLlama32 = R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,
    "bos_token_id":128000,"eos_token_id":[128001,128008,128009],"initializer_range":0.02,"mlp_bias":false,"pretraining_tp":1,
    "rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,
    "rope_type":"llama3"},"rope_theta":500000.0,"transformers_version":"4.45.0","use_cache":true,
    "quantization":{"group_size":64,"bits":4},"quantization_config":{"group_size":64,"bits":4}})";
  const char* const kSmolLm2 = R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":1,
    "is_llama_config":true,"pad_token_id":2,"pretraining_tp":1,"rope_interleaved":false,"rope_scaling":null,
    "rope_theta":100000,"torch_dtype":"bfloat16","transformers.js_config":{"kv_cache_dtype":{"q4f16":"float16"}},
    "_name_or_path":"x","use_cache":true})";
  const char* const kMistral = R"({"architectures":["MistralForCausalLM"],"sliding_window":null,"rope_theta":1000000.0,
    "attention_dropout":0.0,"bos_token_id":1,"eos_token_id":2})";
  const char* const kQwen2 = R"({"architectures":["Qwen2ForCausalLM"],"max_window_layers":28,"sliding_window":131072,
    "use_sliding_window":false,"use_mrope":false,"rope_theta":1000000.0,"attention_dropout":0.0})";
  const char* const kQwen3 = R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"max_window_layers":28,
    "rope_scaling":null,"sliding_window":null,"use_sliding_window":false,"auto_map":{"a":"b"}})";
  const char* const kVersion5 = R"({"dtype":"bfloat16","rope_parameters":{"rope_theta":1000000.0,"rope_type":"default"},
    "layer_types":["full_attention","full_attention"],"rope_theta":null})";
  EXPECT_EQ(error_with(kLlama32), "");
  EXPECT_EQ(error_with(kSmolLm2), "");
  EXPECT_EQ(error_with(kMistral, "mistral"), "");
  EXPECT_EQ(error_with(kQwen2, "qwen2"), "");
  EXPECT_EQ(error_with(kQwen3, "qwen3"), "");
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"})
    EXPECT_EQ(error_with(kVersion5, family), "") << family;
}

TEST(Config, UnknownKeysAreRefusedByName) {
  const std::string error = error_with(R"({"logit_scale":0.0625,"residual_multiplier":0.2,"something":null})");
  EXPECT_THAT(error, HasSubstr("config.json: these keys are not understood and may change what the model computes: "
                               "logit_scale, residual_multiplier"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"type":"linear","factor":2,"strange":1}})"), HasSubstr("strange"));
  EXPECT_THAT(error_with(R"({"attention_bias":true})", "mistral"), HasSubstr("self_attn.q_proj.bias"));
  EXPECT_THAT(error_with(R"({"num_experts":8})", "qwen3"), HasSubstr("num_experts"));
}

TEST(Config, ValuesThatAreNotImplementedAreRefused) {
  EXPECT_THAT(error_with(R"({"hidden_act":"gelu"})"), HasSubstr("\"hidden_act\": \"gelu\" is not implemented"));
  EXPECT_THAT(error_with(R"({"rope_interleaved":true})"), HasSubstr("\"rope_interleaved\": true is not implemented"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"rope_type":"longrope","factor":4}})"),
              HasSubstr("\"longrope\" is not implemented"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"type":"dynamic","factor":4}})"),
              HasSubstr("\"dynamic\" is not implemented"));
  EXPECT_THAT(error_with(R"({"layer_types":["full_attention","chunked_attention"]})"), HasSubstr("chunked_attention"));
  EXPECT_THAT(error_with(R"({"sliding_window":64})"), HasSubstr("\"sliding_window\""));
  EXPECT_THAT(error_with(R"({"architectures":["LlamaForSequenceClassification"]})"),
              HasSubstr("LlamaForSequenceClassification"));
  EXPECT_THAT(error_with(R"({"pruned_heads":{"0":[1]}})"), HasSubstr("pruned_heads"));
}

TEST(Config, WrongTypesAndSizesAreNamed) {
  EXPECT_THAT(error_with(R"({"hidden_size":"64"})"), HasSubstr("key \"hidden_size\": expected an integer"));
  EXPECT_THAT(error_with(R"({"hidden_size":0})"), HasSubstr("key \"hidden_size\": expected an integer from 1"));
  EXPECT_THAT(error_with(R"({"hidden_size":1e30})"), HasSubstr("key \"hidden_size\""));
  EXPECT_THAT(error_with(R"({"num_hidden_layers":null})"),
              HasSubstr("\"num_hidden_layers\": expected a positive integer, but it is missing"));
  EXPECT_THAT(error_with(R"({"num_hidden_layers":2000000000})"), HasSubstr("\"num_hidden_layers\": expected at most"));
  EXPECT_THAT(error_with(R"({"num_key_value_heads":3})"), HasSubstr("4 heads are no multiple of 3 kv heads"));
  EXPECT_THAT(error_with(R"({"rms_norm_eps":0})"), HasSubstr("eps is 0"));
  EXPECT_THAT(error_with(R"({"rope_theta":0.5})"), HasSubstr("rotary base is 0.5"));
  EXPECT_THAT(error_with(R"({"tie_word_embeddings":1})"), HasSubstr("\"tie_word_embeddings\": expected true or false"));
  EXPECT_THAT(error_with(R"({"partial_rotary_factor":1.5})"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":1,
                            "original_max_position_embeddings":64}})"),
              HasSubstr("\"high_freq_factor\": expected more than low_freq_factor"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"type":"linear"}})"),
              HasSubstr("\"factor\": expected a number, but it is missing"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"type":"linear","factor":0}})"),
              HasSubstr("\"factor\": expected at least"));
  EXPECT_THAT(error_with(R"({"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"default"}})"),
              HasSubstr("contradicts the key \"rope_scaling\""));
  EXPECT_THAT(error_with(R"({"layer_types":["full_attention"]})"),
              HasSubstr("\"layer_types\": expected 2 entries, found 1"));
}

TEST(Config, FamiliesAreNamed) {
  for (const char* type : {"gemma3_text", "mixtral", "smollm3", "qwen4_exp"}) {
    const std::string error = error_with(std::string(R"({"model_type":")") + type + "\"}");
    EXPECT_THAT(error, HasSubstr(std::string("model_type \"") + type +
                                 "\" is not supported; supported are llama, mistral, "
                                 "qwen2, qwen3, qwen3_moe, qwen3_next, qwen3_5 and qwen3_5_moe"));
  }
  EXPECT_THAT(error_with(R"({"model_type":null})"), HasSubstr("expected the key \"model_type\""));
}

TEST(Config, SlidingWindows) {
  Tiny mistral;
  mistral.model.family = "mistral";
  mistral.changes = R"({"sliding_window":128})";
  EXPECT_EQ(attention(mistral.network(), 0).window, 128);
  mistral.changes = R"({"sliding_window":128,"layer_types":["full_attention","sliding_attention"]})";
  EXPECT_EQ(attention(mistral.network(), 0).window, 0);
  EXPECT_EQ(attention(mistral.network(), 1).window, 128);
  Tiny qwen;
  qwen.model.family = "qwen2";
  qwen.changes = R"({"use_sliding_window":true,"sliding_window":64,"max_window_layers":1})";
  EXPECT_EQ(attention(qwen.network(), 0).window, 0);
  EXPECT_EQ(attention(qwen.network(), 1).window, 64);
  qwen.changes = R"({"use_sliding_window":false,"sliding_window":64,"max_window_layers":0})";
  EXPECT_EQ(attention(qwen.network(), 1).window, 0);
}

TEST(Config, RopeSettings) {
  Tiny tiny;
  tiny.changes = R"({"partial_rotary_factor":0.5})";
  EXPECT_EQ(attention(tiny.network(), 0).rope.dims, 8);
  EXPECT_EQ(attention(tiny.network(), 0).rope.inv_freq.size(), 4u);
  tiny.changes = R"({"rope_parameters":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512}})";
  const Network yarn = tiny.network();
  EXPECT_EQ(yarn.context_length, 2048);
  EXPECT_FLOAT_EQ(attention(yarn, 0).rope.scale, 0.1f * std::log(4.0f) + 1);
  EXPECT_FLOAT_EQ(attention(yarn, 0).scale, 0.25f);
}

// Tensors against the architecture: change is applied to the list before it is written.
std::string tensor_error(const std::function<void(std::vector<TinyTensor>&)>& change, TinyModel model = {}) {
  TempFolder folder;
  std::vector<TinyTensor> tensors = tiny_tensors(model);
  change(tensors);
  SafetensorsWriter writer;
  for (const TinyTensor& tensor : tensors) {
    writer.add(tensor.name, Format::f32, tensor.shape, encode_plain(Format::f32, tiny_values(model, tensor)));
  }
  writer.save_as(folder / "model.safetensors");
  save_text(folder / "config.json", boost::json::serialize(tiny_config(model)));
  const auto network = read_network(open_checkpoint(folder.path()));
  return network.ok() ? "" : network.error().message;
}

TEST(Tensors, MissingWrongAndForeignOnesAreNamed) {
  const auto without = [](const char* name) {
    return [name](auto& list) { std::erase_if(list, [&](const TinyTensor& t) { return t.name == name; }); };
  };
  EXPECT_THAT(tensor_error(without("model.layers.1.mlp.up_proj.weight")),
              HasSubstr("tensor \"model.layers.1.mlp.up_proj.weight\": expected shape [128, 64], but it is missing"));
  EXPECT_THAT(tensor_error(without("model.embed_tokens.weight")),
              HasSubstr("expected shape [256, 64], but it is missing"));
  EXPECT_THAT(tensor_error([](auto& list) {
                list[3].shape = {31, 64};
              }),
              HasSubstr("expected shape [32, 64], found [31, 64]"));
  EXPECT_THAT(tensor_error([](auto& list) {
                list.push_back({"model.layers.0.self_attn.o_proj.bias", "", {64}, TinyTensor::Kind::bias});
              }),
              HasSubstr("tensor \"model.layers.0.self_attn.o_proj.bias\" f32 [64] has no place in this architecture"));
  EXPECT_EQ(tensor_error([](auto& list) {
              list.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "", {8}});
            }),
            "");
  TinyModel untied;
  untied.tied = false;
  EXPECT_EQ(tensor_error([](auto&) {}, untied), "");
  EXPECT_THAT(tensor_error(without("lm_head.weight"), untied),
              HasSubstr("tensor \"lm_head.weight\": expected shape [256, 64], but it is missing"));
}

TEST(Tensors, FormatsWithoutAProductAreRefused) {
  TempFolder folder;
  const TinyModel model;
  SafetensorsWriter writer;
  for (const TinyTensor& tensor : tiny_tensors(model)) {
    const bool f8 = tensor.name == "model.layers.0.self_attn.q_proj.weight";
    const Format format = f8 ? Format::f8_e4m3 : Format::f32;
    writer.add(tensor.name, format, tensor.shape,
               f8 ? Bytes(64 * 64) : encode_plain(Format::f32, tiny_values(model, tensor)));
  }
  writer.save_as(folder / "model.safetensors");
  save_text(folder / "config.json", boost::json::serialize(tiny_config(model)));
  const auto network = read_network(open_checkpoint(folder.path()));
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(network.error().message, HasSubstr("q_proj.weight\": expected weights, found f8_e4m3 without scales"));
}

// A tiny GGUF with keys and tensors added.
Result<Network> read_gguf(const TinyModel& model, const std::function<void(GgufWriter&)>& add) {
  TempFolder folder;
  GgufWriter writer;
  set_gguf_metadata(writer, model);
  add(writer);
  for (const TinyTensor& tensor : tiny_tensors(model)) {
    writer.add(tensor.gguf_name, Format::f32, tensor.shape, encode_plain(Format::f32, tiny_values(model, tensor)));
  }
  writer.save_as(folder / "m.gguf");
  return read_network(open_checkpoint(folder / "m.gguf"));
}

std::string gguf_error(const std::function<void(GgufWriter&)>& add, const char* family = "llama") {
  TinyModel model;
  model.family = family;
  const auto network = read_gguf(model, add);
  return network.ok() ? "" : network.error().message;
}

TEST(GgufConfig, KeysAreReadOrRefused) {
  EXPECT_EQ(gguf_error([](GgufWriter& w) { w.set("llama.rope.scaling.finetuned", true); }), "");
  EXPECT_EQ(gguf_error([](GgufWriter& w) { w.set("llama.expert_count", uint32_t{0}); }), "");
  EXPECT_EQ(gguf_error([](GgufWriter& w) { w.set("other.thing", uint32_t{1}); }), "");
  EXPECT_THAT(gguf_error([](GgufWriter& w) { w.set("llama.logit_scale", 0.5f); }), HasSubstr("llama.logit_scale"));
  EXPECT_THAT(gguf_error([](GgufWriter& w) { w.set("llama.expert_count", uint32_t{8}); }),
              HasSubstr("\"llama.expert_count\""));
  EXPECT_THAT(gguf_error([](GgufWriter& w) { w.set("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("\"longrope\" is not implemented"));
  EXPECT_THAT(gguf_error([](GgufWriter& w) { w.set("llama.rope.scaling.factor", -2.0f); }),
              HasSubstr("expected a positive number"));
  EXPECT_THAT(gguf_error([](GgufWriter& w) {
                w.set("llama.rope.scaling.type", "linear");
                w.set("llama.rope.scaling.factor", "2");
              }),
              HasSubstr("\"llama.rope.scaling.factor\": expected a number"));
}

TEST(GgufConfig, ScalingAndDivisors) {
  const TinyModel model;
  const Network plain = *read_gguf(model, [](GgufWriter&) {});
  const Network linear = *read_gguf(model, [](GgufWriter& w) {
    w.set("llama.rope.scaling.type", "linear");
    w.set("llama.rope.scaling.factor", 2.0f);
  });
  const Network divided = *read_gguf(model, [](GgufWriter& w) {
    w.add("rope_freqs.weight", Format::f32, {8}, encode_plain(Format::f32, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  });
  for (size_t i = 0; i < 8; ++i) {
    const float frequency = attention(plain, 0).rope.inv_freq[i];
    EXPECT_FLOAT_EQ(attention(linear, 0).rope.inv_freq[i], frequency / 2);
    EXPECT_FLOAT_EQ(attention(divided, 1).rope.inv_freq[i], frequency / static_cast<float>(i + 1));
  }
  const auto zero = read_gguf(model, [](GgufWriter& w) { w.add("rope_freqs.weight", Format::f32, {8}, Bytes(32)); });
  ASSERT_FALSE(zero.ok());
  EXPECT_THAT(zero.error().message, HasSubstr("\"rope_freqs.weight\": expected positive divisors"));
}

TEST(GgufConfig, FamiliesAndTensors) {
  TinyModel gemma;
  gemma.family = "gemma3";
  EXPECT_THAT(read_gguf(gemma, [](GgufWriter&) {}).error().message,
              HasSubstr("general.architecture \"gemma3\" is not supported; supported are llama"));
  EXPECT_THAT(gguf_error([](GgufWriter& w) { w.add("blk.0.ffn_norm_2.weight", Format::f32, {4}, Bytes(16)); }),
              HasSubstr("tensor \"blk.0.ffn_norm_2.weight\" f32 [4] has no place"));
}

TEST(Network, BytesPerTokenCountsWhatIsRead) {
  TinyModel model;
  for (const bool tied : {true, false}) {
    model.tied = tied;
    TempFolder folder;
    const Network network = open_network(write_tiny_hf(folder / "m", model));
    uint64_t expected = 4 * 64;  // one row of the embedding
    for (const TinyTensor& tensor : tiny_tensors(model)) {
      if (tensor.gguf_name == "token_embd.weight" && !tied) continue;
      uint64_t bytes = 4;
      for (const int64_t size : tensor.shape) bytes *= static_cast<uint64_t>(size);
      expected += bytes;
    }
    EXPECT_EQ(bytes_per_token(network), expected);
    EXPECT_EQ(network.tied_head, tied);
    EXPECT_EQ(network.name, "m");
  }
}

}  // namespace
}  // namespace drafthorse::test

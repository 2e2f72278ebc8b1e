// Qwen's hybrid models and mixtures as Networks: every layout of one model gives the same one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "network/hybrid_parts.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Network saved(const HybridFolder& folder) {
  const TempFolder temp;
  folder.save(temp / "m");
  return open_network(temp / "m");
}

Network saved(const HybridGguf& gguf) {
  const TempFolder temp;
  gguf.save(temp / "m.gguf");
  return open_network(temp / "m.gguf");
}

std::vector<TinyHybrid> tiny_hybrids() {
  std::vector<TinyHybrid> models;
  for (const int value_heads : {2, 4, 6}) {  // 1, 2 and 3 a key head
    for (const bool mixture : {false, true}) {
      TinyHybrid model;
      model.value_heads = value_heads;
      model.mixture = mixture;
      model.tied = value_heads == 4;
      if (mixture) model.type = "qwen3_5_moe_text";
      models.push_back(model);
    }
  }
  return models;
}

TEST(Hybrid, HuggingFaceMlxAndGgufHoldTheSameModel) {
  for (const TinyHybrid& model : tiny_hybrids()) {
    SCOPED_TRACE(testing::Message() << model.value_heads << " value heads, mixture " << model.mixture);
    const Network hf = saved(hugging_face_hybrid(model));
    const Network gguf = saved(gguf_hybrid(model));
    EXPECT_EQ(hf.family, model.mixture ? "qwen3_5_moe" : "qwen3_5");
    EXPECT_EQ(gguf.family, hf.family);
    ASSERT_TRUE(hf.mtp && gguf.mtp);
    EXPECT_TRUE(std::get<DeltaNet>(gguf.blocks[0].mixer).tiled_heads);
    EXPECT_FALSE(std::get<DeltaNet>(hf.blocks[0].mixer).tiled_heads);
    EXPECT_THAT(differences(parts_of(hf), parts_of(saved(mlx_hybrid(model)))), IsEmpty());
    EXPECT_THAT(differences(tile(model, parts_of(hf)), parts_of(gguf)), IsEmpty());
  }
}

// The helper's values are what the Network holds, in order: a swap inside the reader cannot hide in two layouts.
TEST(Hybrid, EveryTensorHasItsPlace) {
  TinyHybrid model;
  model.mixture = true;
  const Parts parts = parts_of(saved(hugging_face_hybrid(model)));
  const std::vector<std::pair<std::string, std::string>> places = {
      {"layers.0.linear_attn.in_proj_qkv.weight", "0.mixer.qkv"},
      {"layers.0.linear_attn.in_proj_z.weight", "0.mixer.z"},
      {"layers.0.linear_attn.in_proj_b.weight", "0.mixer.b"},
      {"layers.0.linear_attn.in_proj_a.weight", "0.mixer.a"},
      {"layers.0.linear_attn.conv1d.weight", "0.mixer.conv"},
      {"layers.0.linear_attn.dt_bias", "0.mixer.dt_bias"},
      {"layers.0.linear_attn.norm.weight", "0.mixer.norm"},
      {"layers.0.linear_attn.out_proj.weight", "0.mixer.out"},
      {"layers.0.input_layernorm.weight", "0.before_mixer"},
      {"layers.0.post_attention_layernorm.weight", "0.before_ffn"},
      {"layers.1.self_attn.q_proj.weight", "1.mixer.q"},
      {"layers.1.self_attn.k_norm.weight", "1.mixer.k_norm"},
      {"layers.2.mlp.gate.weight", "2.ffn.router"},
      {"layers.2.mlp.shared_expert.up_proj.weight", "2.ffn.shared.up"},
      {"layers.2.mlp.shared_expert_gate.weight", "2.ffn.shared_gate"},
      {"mtp.fc.weight", "mtp.fc"},
      {"mtp.norm.weight", "mtp.final_norm"},
      {"mtp.pre_fc_norm_embedding.weight", "mtp.embedding_norm"},
      {"mtp.pre_fc_norm_hidden.weight", "mtp.hidden_norm"},
      {"mtp.layers.0.self_attn.o_proj.weight", "mtp.0.mixer.o"}};
  for (const HybridTensor& tensor : hybrid_tensors(model)) {
    for (const auto& [name, part] : places) {
      if (name != tensor.name) continue;
      EXPECT_EQ(parts.at(part), hybrid_values(model, tensor)) << name;
    }
    if (tensor.name == "layers.2.mlp.experts.gate_up_proj") {
      const std::vector<float> gate = expert_half(tensor, hybrid_values(model, tensor), 0);
      const std::vector<float> up = expert_half(tensor, hybrid_values(model, tensor), 1);
      const size_t size = static_cast<size_t>(model.expert_size * model.hidden);
      for (size_t e = 0; e < static_cast<size_t>(model.experts); ++e) {
        const auto slice = [&](const std::vector<float>& v) {
          return std::vector<float>(v.begin() + static_cast<int64_t>(e * size),
                                    v.begin() + static_cast<int64_t>((e + 1) * size));
        };
        EXPECT_EQ(parts.at("2.ffn." + std::to_string(e) + ".gate"), slice(gate));
        EXPECT_EQ(parts.at("2.ffn." + std::to_string(e) + ".up"), slice(up));
      }
    }
  }
}

TEST(Hybrid, PrefixesAndNestedConfigs) {
  TinyHybrid model;
  model.tied = false;
  const Parts expected = parts_of(saved(hugging_face_hybrid(model)));
  HybridFolder folder = hugging_face_hybrid(model);
  // As the multimodal checkpoints are: model.language_model., a nested config, a vision tower that is left alone.
  for (FileTensor& tensor : folder.tensors) {
    if (tensor.name.starts_with("model.")) tensor.name = "model.language_model." + tensor.name.substr(6);
  }
  const Bytes bytes = encode_plain(Format::f32, std::vector<float>(4, 1.0f));
  folder.tensors.push_back({"model.visual.blocks.0.attn.qkv.weight", Format::f32, {2, 2}, bytes});
  folder.tensors.push_back({"vision_tower.merger.norm.weight", Format::f32, {4}, bytes});
  boost::json::object text = folder.config;
  text["model_type"] = "qwen3_5_text";
  text["tie_word_embeddings"] = true;  // the outer one counts
  text["rope_parameters"] = {{"rope_type", "default"},
                             {"rope_theta", 10000.0},
                             {"partial_rotary_factor", 0.25},
                             {"mrope_interleaved", true},
                             {"mrope_section", {2, 1, 1}}};
  folder.config = {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
                   {"model_type", "qwen3_5"},
                   {"text_config", text},
                   {"vision_config", {{"depth", 12}}},
                   {"image_token_id", 7},
                   {"tie_word_embeddings", false}};
  EXPECT_THAT(differences(expected, parts_of(saved(folder))), IsEmpty());
  // Text-only packs without any prefix.
  folder = hugging_face_hybrid(model);
  for (FileTensor& tensor : folder.tensors) {
    if (tensor.name.starts_with("model.")) tensor.name = tensor.name.substr(6);
  }
  EXPECT_THAT(differences(expected, parts_of(saved(folder))), IsEmpty());
}

TEST(Hybrid, SpellingsOfTheConfig) {
  const TinyHybrid model;
  const HybridFolder plain = hugging_face_hybrid(model);
  const Parts expected = parts_of(saved(plain));
  HybridFolder folder = plain;
  // The interval instead of the list; flat rope; experts of a dense model.
  folder.config.erase("layer_types");
  folder.config.erase("rope_parameters");
  folder.config["rope_theta"] = 10000.0;
  folder.config["partial_rotary_factor"] = 0.25;
  folder.config["rope_scaling"] = nullptr;
  folder.config["model_type"] = "qwen3_5_moe";
  folder.config["num_experts"] = 0;
  folder.config["output_gate_type"] = "swish";
  EXPECT_THAT(differences(expected, parts_of(saved(folder))), IsEmpty());
  // The list wins over the interval.
  folder = plain;
  folder.config["full_attention_interval"] = 4;
  EXPECT_THAT(differences(expected, parts_of(saved(folder))), IsEmpty());
  // A quarter of the head by default, and the nested factor before the flat one.
  folder.config["rope_parameters"] = {{"rope_theta", 10000.0}};
  EXPECT_EQ(std::get<Attention>(saved(folder).blocks[1].mixer).rope.dims, 8);
  folder.config["partial_rotary_factor"] = 0.5;
  EXPECT_EQ(std::get<Attention>(saved(folder).blocks[1].mixer).rope.dims, 16);
  folder.config["rope_parameters"] = {{"rope_theta", 10000.0}, {"partial_rotary_factor", 0.25}};
  EXPECT_EQ(std::get<Attention>(saved(folder).blocks[1].mixer).rope.dims, 8);
  folder.config["output_gate_type"] = "sigmoid";
  EXPECT_EQ(std::get<DeltaNet>(saved(folder).blocks[0].mixer).gate, Activation::sigmoid);
}

// Qwen3-Next fuses q, k, v, z and b, a by key head; taken apart they are Qwen3.5's.
TEST(Hybrid, Qwen3NextIsTakenApart) {
  for (const int value_heads : {2, 4, 6}) {
    TinyHybrid model;
    model.value_heads = value_heads;
    model.mixture = true;
    const Parts expected = parts_of(saved(hugging_face_hybrid(model)));
    HybridFolder folder = hugging_face_hybrid(model);
    folder.config["model_type"] = "qwen3_next";
    const size_t row = static_cast<size_t>(model.hidden) * sizeof(float);
    const int keys = model.key_heads, ratio = value_heads / keys, dk = model.key_dim, dv = ratio * model.value_dim;
    const auto append_rows = [&](Bytes& to, const FileTensor& from, int first, int count) {
      const auto bytes =
          std::span(from.data).subspan(static_cast<size_t>(first) * row, static_cast<size_t>(count) * row);
      to.insert(to.end(), bytes.begin(), bytes.end());
    };
    for (int layer = 0; layer < model.layers; ++layer) {
      if (!model.linear(layer)) continue;
      const std::string prefix = "model.layers." + std::to_string(layer) + ".linear_attn.in_proj_";
      const FileTensor qkv = folder.tensor(prefix + "qkv.weight"), z = folder.tensor(prefix + "z.weight"),
                       b = folder.tensor(prefix + "b.weight"), a = folder.tensor(prefix + "a.weight");
      Bytes qkvz, ba;
      for (int k = 0; k < keys; ++k) {
        append_rows(qkvz, qkv, k * dk, dk);
        append_rows(qkvz, qkv, (keys + k) * dk, dk);
        append_rows(qkvz, qkv, 2 * keys * dk + k * dv, dv);
        append_rows(qkvz, z, k * dv, dv);
        append_rows(ba, b, k * ratio, ratio);
        append_rows(ba, a, k * ratio, ratio);
      }
      for (const char* name : {"qkv", "z", "b", "a"}) folder.erase(prefix + name + ".weight");
      folder.tensors.push_back({prefix + "qkvz.weight", Format::f32, {keys * (2 * dk + 2 * dv), model.hidden}, qkvz});
      folder.tensors.push_back({prefix + "ba.weight", Format::f32, {keys * 2 * ratio, model.hidden}, ba});
    }
    const Network network = saved(folder);
    EXPECT_EQ(network.family, "qwen3_next");
    EXPECT_THAT(differences(expected, parts_of(network)), IsEmpty());
  }
}

// GGUF's qwen3next: q, k, v and z are apart already, b and a are not, and the value heads are in Hugging Face's order.
TEST(Hybrid, Qwen3NextInGguf) {
  TinyHybrid model;
  model.mixture = true;
  model.head = false;
  model.value_heads = 6;
  HybridGguf gguf = gguf_hybrid(model);
  for (auto& [key, value] : gguf.metadata) {
    if (key.starts_with("qwen35moe.")) key = "qwen3next." + key.substr(10);
  }
  gguf.set("general.architecture", std::string("qwen3next"));
  const int ratio = model.value_heads / model.key_heads;
  std::vector<float> a, b;
  for (const HybridTensor& tensor : hybrid_tensors(model)) {
    for (FileTensor& file : gguf.tensors) {  // undo the tiling
      if (file.name != tensor.gguf_name || tensor.value_rows == 0) continue;
      std::vector<float> values = hybrid_values(model, tensor);
      if (tensor.kind == HybridTensor::Kind::decay) {
        for (float& value : values) value = -std::exp(value);
      }
      file.data = encode_plain(Format::f32, values);
    }
    if (!tensor.name.ends_with("in_proj_b.weight") && !tensor.name.ends_with("in_proj_a.weight")) continue;
    (tensor.name.ends_with("in_proj_b.weight") ? b : a) = hybrid_values(model, tensor);
    std::erase_if(gguf.tensors, [&](const FileTensor& file) { return file.name == tensor.gguf_name; });
    if (!tensor.name.ends_with("in_proj_a.weight")) continue;
    std::vector<float> fused;
    for (int k = 0; k < model.key_heads; ++k) {
      for (const std::vector<float>* part : {&b, &a}) {
        const auto begin = part->begin() + k * ratio * model.hidden;
        fused.insert(fused.end(), begin, begin + ratio * model.hidden);
      }
    }
    const std::string block = tensor.gguf_name.substr(0, tensor.gguf_name.rfind("ssm_alpha"));
    gguf.tensors.push_back({block + "ssm_ba.weight",
                            Format::f32,
                            {2 * model.value_heads, model.hidden},
                            encode_plain(Format::f32, fused)});
  }
  const Network network = saved(gguf);
  EXPECT_EQ(network.family, "qwen3_next");
  EXPECT_FALSE(std::get<DeltaNet>(network.blocks[0].mixer).tiled_heads);
  EXPECT_THAT(differences(parts_of(saved(hugging_face_hybrid(model))), parts_of(network)), IsEmpty());
}

// GGUF's qwen3moe: attention without a gate, a mixture without a shared expert.
TEST(Hybrid, Qwen3MoeInGguf) {
  TinyHybrid model;
  model.mixture = true;
  model.head = false;
  model.interval = 1;
  HybridGguf gguf;
  set_hybrid_metadata(gguf, model, "qwen3moe");
  std::erase_if(gguf.metadata, [](const auto& item) {
    return item.first.find(".ssm.") != std::string::npos || item.first.find("interval") != std::string::npos ||
           item.first.find("shared") != std::string::npos;
  });
  gguf.set("qwen3moe.rope.dimension_count", 32u);
  for (FileTensor tensor : gguf_hybrid(model).tensors) {
    if (tensor.name.find("shexp") != std::string::npos) continue;
    if (const size_t at = tensor.name.find("post_attention_norm"); at != std::string::npos) {
      tensor.name.replace(at, std::string("post_attention_norm").size(), "ffn_norm");
    }
    if (tensor.name.ends_with("attn_q.weight")) {
      tensor.shape[0] /= 2;
      tensor.data.resize(tensor.data.size() / 2);
    }
    gguf.tensors.push_back(tensor);
  }
  const Network network = saved(gguf);
  EXPECT_EQ(network.family, "qwen3_moe");
  EXPECT_FALSE(std::get<Attention>(network.blocks[0].mixer).gated);
  const Moe& moe = std::get<Moe>(network.blocks[3].ffn);
  EXPECT_TRUE(moe.normalised);
  EXPECT_FALSE(moe.shared);
  Parts hf = parts_of(saved(hugging_face_hybrid(model)));
  EXPECT_EQ(hf.at("3.ffn.7.down"), values_of(moe.experts[7].down.weight));
  EXPECT_EQ(hf.at("2.before_ffn"), values_of(network.blocks[2].before_ffn));
}

// Experts one by one, as Qwen3-MoE and Qwen3-Next are published, and fused under MLX's name.
TEST(Hybrid, LayoutsOfExperts) {
  TinyHybrid model;
  model.mixture = true;
  const Parts expected = parts_of(saved(hugging_face_hybrid(model)));
  HybridFolder single = hugging_face_hybrid(model), fused = mlx_hybrid(model);
  for (int layer = -1; layer < model.layers; ++layer) {
    const std::string hf = layer < 0 ? "mtp.layers.0.mlp." : "model.layers." + std::to_string(layer) + ".mlp.";
    const FileTensor gate_up = single.tensor(hf + "experts.gate_up_proj"),
                     down = single.tensor(hf + "experts.down_proj");
    single.erase(gate_up.name);
    single.erase(down.name);
    for (int e = 0; e < model.experts; ++e) {
      const auto add = [&](const char* name, const FileTensor& from, int part, int parts, std::vector<int64_t> shape) {
        const size_t size = from.data.size() / static_cast<size_t>(model.experts * parts);
        const auto bytes = std::span(from.data).subspan(size * static_cast<size_t>(e * parts + part), size);
        single.tensors.push_back({hf + "experts." + std::to_string(e) + "." + name + ".weight", Format::f32,
                                  std::move(shape), Bytes(bytes.begin(), bytes.end())});
      };
      add("gate_proj", gate_up, 0, 2, {model.expert_size, model.hidden});
      add("up_proj", gate_up, 1, 2, {model.expert_size, model.hidden});
      add("down_proj", down, 0, 1, {model.hidden, model.expert_size});
    }
    const std::string mlx = "language_model." + hf + "switch_mlp.";
    fused.erase(mlx + "gate_proj.weight");
    fused.erase(mlx + "up_proj.weight");
    FileTensor both = gate_up;
    both.name = mlx + "gate_up_proj.weight";
    fused.tensors.push_back(both);
  }
  EXPECT_THAT(differences(expected, parts_of(saved(single))), IsEmpty());
  EXPECT_THAT(differences(expected, parts_of(saved(fused))), IsEmpty());
}

// 4-bit experts, an 8-bit router and gate, a drafting head's fc in bf16: each slice has its own scales and biases.
TEST(Hybrid, MixedMlxPacks) {
  TinyHybrid model;
  model.mixture = true;
  model.hidden = 128;
  model.expert_size = 64;
  HybridFolder folder = mlx_hybrid(model, Format::bf16);
  const auto is_router = [](const std::string& name) {
    return name.ends_with("mlp.gate.weight") || name.ends_with("shared_expert_gate.weight");
  };
  quantise_mlx(folder, 8, 64, 1, is_router);
  quantise_mlx(folder, 4, 32, 1,
               [&](const std::string& name) { return !is_router(name) && !name.ends_with("fc.weight"); });
  // Where text_config says how they are quantised.
  boost::json::object text = folder.config;
  text["quantization"] = {{"group_size", 32}, {"bits", 4}};
  for (int i = -1; i < model.layers; ++i) {
    const std::string path =
        i < 0 ? "language_model.mtp.layers.0.mlp." : "language_model.model.layers." + std::to_string(i) + ".mlp.";
    for (const char* name : {"gate", "shared_expert_gate"}) {
      text["quantization"].as_object()[path + name] = {{"group_size", 64}, {"bits", 8}};
    }
  }
  folder.config = {{"model_type", "qwen3_5_moe"}, {"text_config", text}};
  const Network network = saved(folder);
  const Moe& moe = std::get<Moe>(network.blocks[2].ffn);
  EXPECT_EQ(moe.router.weight.bits, 8);
  EXPECT_EQ(moe.router.weight.group_size, 64);
  EXPECT_EQ(network.mtp->joined_input->fc.weight.format, Format::bf16);
  const TensorView* whole = network.checkpoint->find("language_model.model.layers.2.mlp.switch_mlp.up_proj.weight");
  ASSERT_TRUE(whole);
  const std::vector<float> all = values_of(*whole);
  const size_t size = all.size() / 8;
  for (size_t e = 0; e < 8; ++e) {
    const TensorView& up = moe.experts[e].up.weight;
    EXPECT_EQ(up.bits, 4);
    const std::vector<float> expected(all.begin() + static_cast<int64_t>(e * size),
                                      all.begin() + static_cast<int64_t>((e + 1) * size));
    EXPECT_EQ(values_of(up), expected);
  }
  // A token reads two experts, the shared one and the router of each block.
  folder.config["text_config"].as_object()["num_experts_per_tok"] = 3;
  const uint64_t expert = moe.experts[0].gate.weight.bytes() * 3;
  EXPECT_EQ(bytes_per_token(saved(folder)) - bytes_per_token(network), 4 * expert);
}

// Models that transformers wrote, with goldens of their logits that the backends' tests use.
TEST(Hybrid, WhatTransformersWroteLoads) {
  const std::filesystem::path folder = std::filesystem::path(DRAFTHORSE_SOURCE) / "tests/data/hybrid_goldens";
  for (const char* name : {"dense_fp32", "dense_nested", "dense_thirds", "moe", "moe_nested"}) {
    const Network network = open_network(folder / name);
    EXPECT_EQ(network.blocks.size(), 4u) << name;
    EXPECT_TRUE(network.mtp) << name;
    EXPECT_FALSE(network.mtp_hidden_known) << name;
    EXPECT_EQ(network.blocks[0].before_mixer.weight_offset, 1.0f) << name;
  }
  const Network next = open_network(folder / "qwen3_next");
  EXPECT_EQ(next.family, "qwen3_next");
  EXPECT_EQ(std::get<Moe>(next.blocks[0].ffn).experts.size(), 8u);
  const Network moe = open_network(folder / "qwen3_moe");
  EXPECT_EQ(moe.family, "qwen3_moe");
  EXPECT_EQ(moe.blocks[0].before_mixer.weight_offset, 0.0f);
  const Attention& attention = std::get<Attention>(moe.blocks[0].mixer);
  EXPECT_FALSE(attention.gated);
  EXPECT_EQ(attention.rope.dims, 32);
  const Moe& mixture = std::get<Moe>(moe.blocks[0].ffn);
  EXPECT_EQ(mixture.experts.size(), 8u);
  EXPECT_FALSE(mixture.normalised);
  EXPECT_FALSE(mixture.shared);
}

// The trained model in the repository: exactly the family's structure in an MLX pack, with a drafting head.
TEST(Hybrid, TheTrainedModelLoads) {
  const std::filesystem::path folder = std::filesystem::path(DRAFTHORSE_SOURCE) / "models/drafthorse-demo-33m";
  const Network network = open_network(folder);
  ASSERT_EQ(network.blocks.size(), 8u);
  EXPECT_EQ(network.family, "qwen3_5_moe");
  EXPECT_TRUE(network.tied_head);
  for (size_t i = 0; i < 8; ++i) {
    const Block& block = network.blocks[i];
    EXPECT_EQ(std::holds_alternative<Attention>(block.mixer), i == 3 || i == 7);
    EXPECT_EQ(block.before_mixer.weight_offset, 0.0f);  // folded, as in MLX packs
    const Moe& moe = std::get<Moe>(block.ffn);
    EXPECT_EQ(moe.experts.size(), 16u);
    EXPECT_EQ(moe.top_k, 4);
    EXPECT_TRUE(moe.shared && moe.shared_gate && moe.normalised);
  }
  const DeltaNet& delta = std::get<DeltaNet>(network.blocks[0].mixer);
  EXPECT_EQ(delta.conv.shape, (std::vector<int64_t>{1024, 4}));
  EXPECT_EQ(delta.norm.weight_offset, 0.0f);
  EXPECT_TRUE(delta.decay_is_log);
  EXPECT_FALSE(delta.tiled_heads);
  const Attention& attention = std::get<Attention>(network.blocks[3].mixer);
  EXPECT_TRUE(attention.gated);
  EXPECT_EQ(attention.rope.dims, 16);
  EXPECT_EQ(attention.q.out_features(), 2 * 8 * 64);
  ASSERT_TRUE(network.mtp);
  EXPECT_EQ(network.mtp_hidden, Hidden::after_norm);
  EXPECT_TRUE(network.mtp_hidden_known);
  EXPECT_EQ(network.mtp->embedding.data.data(), network.embedding.data.data());
  EXPECT_EQ(network.mtp->head.weight.data.data(), network.head.weight.data.data());
  ASSERT_TRUE(network.mtp->joined_input);
  EXPECT_EQ(network.mtp->joined_input->fc.in_features(), 768);
  EXPECT_EQ(network.mtp->final_norm.weight_offset, 0.0f);
}

}  // namespace
}  // namespace drafthorse::test

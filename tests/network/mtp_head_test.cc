// Where a drafting head is found, what it shares with the trunk, and how its norms are stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "network/hybrid_parts.h"

namespace drafthorse::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The head's tensors of a model, as a folder of their own, with `prefix` for "mtp.".
HybridFolder take_head(HybridFolder& folder, const std::string& from, const std::string& prefix) {
  HybridFolder head;
  for (const FileTensor& tensor : folder.tensors) {
    if (!tensor.name.starts_with(from)) continue;
    head.tensors.push_back(tensor);
    head.tensors.back().name = prefix + tensor.name.substr(from.size());
  }
  std::erase_if(folder.tensors, [&](const FileTensor& tensor) { return tensor.name.starts_with(from); });
  return head;
}

void save_tensors(const HybridFolder& folder, const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  SafetensorsWriter writer;
  for (const FileTensor& tensor : folder.tensors) writer.add(tensor.name, tensor.format, tensor.shape, tensor.data);
  writer.save_as(file);
}

// A converted (MLX) trunk in one folder and its head apart, its norms stored minus one or not.
struct Apart {
  TempFolder temp;
  TinyHybrid model;
  HybridFolder trunk, head;
  Parts expected;

  explicit Apart(const std::string& prefix, bool minus_one = true, bool mixture = false) {
    model.mixture = mixture;
    trunk = mlx_hybrid(model);
    trunk.save(temp / "whole");
    expected = parts_of(open_network(temp / "whole"));
    (void)take_head(trunk, "language_model.mtp.", "");
    HybridFolder source = minus_one ? hugging_face_hybrid(model) : mlx_hybrid(model);
    head = take_head(source, minus_one ? "mtp." : "language_model.mtp.", prefix);
    trunk.save(temp / "m");
  }
  Result<Network> read(const std::string& mtp = "") { return read_network(open_checkpoint(temp / "m"), {.mtp = mtp}); }
  void expect_whole(const std::string& mtp = "") {
    const Result<Network> network = read(mtp);
    ASSERT_TRUE(network.ok()) << network.error().message;
    ASSERT_TRUE(network->mtp);
    EXPECT_THAT(differences(expected, parts_of(*network)), IsEmpty());
    EXPECT_EQ(network->mtp->embedding.data.data(), network->embedding.data.data());
    EXPECT_EQ(network->mtp->head.weight.data.data(), network->head.weight.data.data());
  }
};

TEST(MtpHead, SideFilesAreFound) {
  for (const char* file : {"mtp.safetensors", "mtp/weights.safetensors", "mtp/model.safetensors",
                           "model-mtp.safetensors", "optiq/mtp.safetensors"}) {
    for (const char* prefix : {"mtp.", "", "language_model.mtp."}) {
      SCOPED_TRACE(std::string(file) + " with prefix \"" + prefix + "\"");
      Apart apart(prefix);
      EXPECT_FALSE(apart.read()->mtp);
      save_tensors(apart.head, apart.temp / "m" / file);
      apart.expect_whole();
    }
  }
}

TEST(MtpHead, TheConfigMayNameItsFile) {
  Apart apart("mtp.");
  save_tensors(apart.head, apart.temp / "m/parts/draft.safetensors");
  apart.trunk.config["mlx_lm_extra_tensors"] = {{"mtp_file", "parts/draft.safetensors"}};
  apart.trunk.save(apart.temp / "m");
  apart.expect_whole();
  for (const char* path : {"../whole/model.safetensors", "/etc/passwd", "parts/../../whole"}) {
    apart.trunk.config["mlx_lm_extra_tensors"] = {{"mtp_file", path}};
    apart.trunk.save(apart.temp / "m");
    EXPECT_THAT(apart.read().error().message, HasSubstr("expected a file in the model's folder")) << path;
  }
}

TEST(MtpHead, TheOptionNamesAFileOrAFolder) {
  for (const bool mixture : {false, true}) {
    Apart apart("", true, mixture);
    save_tensors(apart.head, apart.temp / "elsewhere/x.safetensors");
    apart.expect_whole((apart.temp / "elsewhere/x.safetensors").string());
    save_tensors(apart.head, apart.temp / "folder/weights.safetensors");
    apart.expect_whole((apart.temp / "folder").string());
    // A companion as it is published has a config of its own.
    apart.head.config = {{"model_type", "qwen3_5_mtp"}};
    apart.head.save(apart.temp / "companion");
    apart.expect_whole((apart.temp / "companion").string());
    // A whole model gives its head, and a GGUF file as well.
    apart.expect_whole((apart.temp / "whole").string());
    gguf_hybrid(apart.model).save(apart.temp / "whole.gguf");
    apart.expect_whole((apart.temp / "whole.gguf").string());
  }
}

TEST(MtpHead, TheOptionWinsOverTheCheckpointsOwn) {
  TinyHybrid model, other;
  other.seed = 2;
  const TempFolder temp;
  hugging_face_hybrid(model).save(temp / "m");
  HybridFolder source = hugging_face_hybrid(other);
  save_tensors(take_head(source, "mtp.", "mtp."), temp / "other.safetensors");
  const Result<Network> network =
      read_network(open_checkpoint(temp / "m"), {.mtp = (temp / "other.safetensors").string()});
  ASSERT_TRUE(network.ok()) << network.error().message;
  hugging_face_hybrid(other).save(temp / "o");
  const Parts mine = parts_of(*network), theirs = parts_of(open_network(temp / "o"));
  EXPECT_EQ(mine.at("mtp.fc"), theirs.at("mtp.fc"));
  EXPECT_NE(mine.at("0.mixer.qkv"), theirs.at("0.mixer.qkv"));
}

TEST(MtpHead, CompanionFoldersBesideTheModel) {
  const std::vector<std::pair<std::string, std::string>> pairs = {{"Qwen3.5-9B-4bit", "Qwen3.5-9B-MTP-4bit"},
                                                                  {"Qwen3.5-9B-oQ4e", "Qwen3.5-9B-oQ4e-mtp"},
                                                                  {"Qwen3.6-27B", "Qwen3.6-27B-MTP-MLX-8bit"}};
  for (const auto& [name, companion] : pairs) {
    SCOPED_TRACE(companion);
    Apart apart("");
    std::filesystem::rename(apart.temp / "m", apart.temp / name);
    std::filesystem::create_directory(apart.temp / "Qwen3.5-4B-MTP-4bit");  // another model's
    apart.head.config = {{"model_type", "qwen3_5_mtp"}};
    apart.head.save(apart.temp / companion);
    const Network network = open_network(apart.temp / name);
    ASSERT_TRUE(network.mtp);
    EXPECT_THAT(differences(apart.expected, parts_of(network)), IsEmpty());
    // Two that fit as well as each other: neither is chosen. One that does not fit: the model runs without.
    apart.head.save(apart.temp / (companion + "-2"));
    std::filesystem::rename(apart.temp / (companion + "-2"),
                            apart.temp / (companion.substr(0, companion.size() - 4) + "8888"));
    if (companion.ends_with("4bit")) {
      EXPECT_FALSE(open_network(apart.temp / name).mtp);
    }
  }
  Apart apart("");
  std::filesystem::rename(apart.temp / "m", apart.temp / "Qwen3.5-9B-4bit");
  apart.head.erase("norm.weight");
  apart.head.config = {{"model_type", "qwen3_5_mtp"}};
  apart.head.save(apart.temp / "Qwen3.5-9B-MTP-4bit");
  EXPECT_FALSE(open_network(apart.temp / "Qwen3.5-9B-4bit").mtp);
  const auto given = read_network(open_checkpoint(apart.temp / "Qwen3.5-9B-4bit"),
                                  {.mtp = (apart.temp / "Qwen3.5-9B-MTP-4bit").string()});
  EXPECT_THAT(given.error().message, HasSubstr("tensor \"norm.weight\": expected shape [64], but it is missing"));
}

TEST(MtpHead, CompanionRepositoriesInTheHubsCache) {
  namespace fs = std::filesystem;
  Apart apart("");
  apart.head.config = {{"model_type", "qwen3_5_mtp"}};
  const auto put = [&](const std::string& repository, const std::string& commit, const fs::path& folder) {
    const fs::path to = apart.temp / repository / "snapshots" / commit;
    fs::create_directories(to.parent_path());
    fs::copy(folder, to, fs::copy_options::recursive);
    return to;
  };
  apart.head.save(apart.temp / "head");
  const fs::path model = put("models--Qwen--Qwen3.5-9B-4bit", "0f", apart.temp / "m");
  EXPECT_FALSE(open_network(model).mtp);
  fs::create_directories(apart.temp / "models--others--Qwen3.5-9B-MTP-4bit" / "snapshots");  // nothing in it
  EXPECT_FALSE(open_network(model).mtp);
  fs::remove_all(apart.temp / "models--others--Qwen3.5-9B-MTP-4bit");
  put("models--others--Qwen3.5-9B-MTP-4bit", "1a", apart.temp / "head");
  EXPECT_TRUE(open_network(model).mtp);  // another organisation's, the only one
  put("models--more--Qwen3.5-9B-MTP-8bit", "1b", apart.temp / "head");
  EXPECT_FALSE(open_network(model).mtp);  // which of the two?
  put("models--Qwen--Qwen3.5-9B-MTP-8bit", "2a", apart.temp / "head");
  EXPECT_TRUE(open_network(model).mtp);  // the model's own organisation
  put("models--Qwen--Qwen3.5-9B-MTP-8bit", "2b", apart.temp / "head");
  EXPECT_FALSE(open_network(model).mtp);  // two versions of it, and none is said to be the current one
  fs::create_directories(apart.temp / "models--Qwen--Qwen3.5-9B-MTP-8bit" / "refs");
  std::ofstream(apart.temp / "models--Qwen--Qwen3.5-9B-MTP-8bit" / "refs" / "main") << "2a";
  const Network network = open_network(model);
  ASSERT_TRUE(network.mtp);
  EXPECT_THAT(differences(apart.expected, parts_of(network)), IsEmpty());
}

// The head alone keeps the trunk's embedding and its own file mapped.
TEST(MtpHead, KeepsBothCheckpointsAlive) {
  Apart apart("mtp.");
  save_tensors(apart.head, apart.temp / "m/mtp.safetensors");
  std::shared_ptr<const Network> head;
  std::weak_ptr<const Checkpoint> trunk;
  {
    const Result<Network> network = apart.read();
    ASSERT_TRUE(network.ok());
    head = network->mtp;
    trunk = network->checkpoint;
  }
  EXPECT_FALSE(trunk.expired());
  EXPECT_EQ(values_of(head->embedding), apart.expected.at("embedding"));
  EXPECT_EQ(values_of(head->joined_input->fc.weight), apart.expected.at("mtp.fc"));
  // Only its own tensors count as its weights.
  EXPECT_EQ(head->checkpoint->tensors().size(), apart.head.tensors.size());
  head.reset();
  EXPECT_TRUE(trunk.expired());
}

// Norms stored as they are, or minus one, whatever the trunk beside them does.
TEST(MtpHead, NormsOfASideFile) {
  for (const bool minus_one : {false, true}) {
    Apart apart("mtp.", minus_one);
    save_tensors(apart.head, apart.temp / "m/mtp.safetensors");
    apart.expect_whole();
    EXPECT_EQ(apart.read()->mtp->final_norm.weight_offset, minus_one ? 1.0f : 0.0f);
  }
}

// Every norm of the head gets one value, so that only the mean or the manifest can tell.
void fill_norms(HybridFolder& head, float value, int negatives) {
  for (FileTensor& tensor : head.tensors) {
    if (tensor.shape.size() != 1) continue;
    std::vector<float> values(static_cast<size_t>(tensor.shape[0]), value);
    for (int i = 0; i < negatives; ++i) values[static_cast<size_t>(i)] = -0.01f;
    tensor.data = encode_plain(Format::f32, values);
  }
}

TEST(MtpHead, NormsThatAreHardToTell) {
  const auto offset = [](float value, int negatives, const char* manifest) {
    Apart apart("mtp.");
    fill_norms(apart.head, value, negatives);
    save_tensors(apart.head, apart.temp / "m/mtp/weights.safetensors");
    if (manifest) save_text(apart.temp / "m/mtp/manifest.json", manifest);
    const Result<Network> network = apart.read();
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    return network->mtp->joined_input->hidden_norm.weight_offset;
  };
  // The trunk's norms are about 0.9.
  EXPECT_EQ(offset(0.3f, 1, nullptr), 1.0f);
  EXPECT_EQ(offset(0.8f, 1, nullptr), 0.0f);
  EXPECT_EQ(offset(0.3f, 0, nullptr), 0.0f);  // no negatives at all
  EXPECT_EQ(offset(0.3f, 30, nullptr), 1.0f);
  EXPECT_EQ(offset(0.0f, 0, nullptr), 1.0f);  // zeros are no gains
  EXPECT_EQ(offset(0.3f, 30, R"({"rmsnorm_weight_format":"mlx_gamma"})"), 0.0f);
  EXPECT_EQ(offset(0.8f, 0, R"({"rmsnorm_weight_format":"delta"})"), 1.0f);
}

TEST(MtpHead, Contracts) {
  const auto read = [](const std::string& config_mode, const char* runtime) -> Result<Network> {
    const TempFolder temp;
    HybridFolder folder = hugging_face_hybrid({});
    if (!config_mode.empty()) folder.config["mtp_hidden_state_mode"] = config_mode;
    folder.save(temp / "m");
    if (runtime) save_text(temp / "m/mtplx_runtime.json", runtime);
    return read_network(open_checkpoint(temp / "m"));
  };
  EXPECT_EQ(read("", nullptr)->mtp_hidden, Hidden::after_norm);
  EXPECT_FALSE(read("", nullptr)->mtp_hidden_known);
  EXPECT_EQ(read("pre_norm", nullptr)->mtp_hidden, Hidden::before_norm);
  EXPECT_TRUE(read("pre_norm", nullptr)->mtp_hidden_known);
  const auto contract = read("", R"({"mtp_contract":{"base_hidden_variant":"pre_norm","hidden_variant":"post_norm",
      "concat_order":"hidden_embedding","mtp_position_mode":"cache"},"other":1})");
  ASSERT_TRUE(contract.ok()) << contract.error().message;
  EXPECT_EQ(contract->mtp_hidden, Hidden::before_norm);
  EXPECT_TRUE(contract->mtp_hidden_known);
  EXPECT_FALSE(contract->mtp->joined_input->embedding_first);
  EXPECT_THAT(read("middle", nullptr).error().message, HasSubstr("\"mtp_hidden_state_mode\": \"middle\" is not"));
  EXPECT_THAT(read("", R"({"mtp_contract":{"concat_order":"sum"}})").error().message, HasSubstr("\"concat_order\""));
  EXPECT_THAT(read("", R"({"mtp_contract":{"mtp_position_mode":"x"}})").error().message, HasSubstr("\"x\" is not"));
  EXPECT_THAT(read("", R"({"mtp_contract":[1]})").error().message, HasSubstr("mtp_contract"));
  EXPECT_THAT(read("", "{").error().message, HasSubstr("mtplx_runtime.json: it is not JSON"));
}

TEST(MtpHead, WhatCannotBeAHead) {
  Apart apart("mtp.");
  const auto error = [&](const std::filesystem::path& mtp) { return apart.read(mtp.string()).error().message; };
  EXPECT_THAT(error(apart.temp / "nothing"), HasSubstr("nothing: no such file or folder"));
  EXPECT_THAT(error(apart.temp / "m"), HasSubstr("expected a drafting head's tensors"));
  std::filesystem::create_directory(apart.temp / "empty");
  EXPECT_THAT(error(apart.temp / "empty"), HasSubstr("holds no"));
  HybridFolder extra = apart.head;
  extra.tensors.push_back({"mtp.layers.1.input_layernorm.weight", Format::f32, {1}, Bytes(4)});
  save_tensors(extra, apart.temp / "extra.safetensors");
  EXPECT_THAT(error(apart.temp / "extra.safetensors"),
              HasSubstr("extra.safetensors: tensor \"mtp.layers.1.input_layernorm.weight\""));
  HybridFolder other_size = hugging_face_hybrid({.hidden = 128});
  save_tensors(take_head(other_size, "mtp.", "mtp."), apart.temp / "other.safetensors");
  EXPECT_THAT(error(apart.temp / "other.safetensors"), HasSubstr("expected shape [64], found [128]"));
  Bytes half = Bytes(100, std::byte{1});
  save(apart.temp / "broken.safetensors", half);
  EXPECT_THAT(error(apart.temp / "broken.safetensors"), HasSubstr("broken.safetensors"));
  // A family that has none.
  write_tiny_hf(apart.temp / "llama", {});
  const auto llama = read_network(open_checkpoint(apart.temp / "llama"), {.mtp = "x"});
  EXPECT_THAT(llama.error().message, HasSubstr("this family has no drafting head"));
}

}  // namespace
}  // namespace drafthorse::test

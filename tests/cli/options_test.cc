#include "cli/options.h"

#include <gtest/gtest.h>

#include "cli/model_setup.h"

namespace drafthorse {
namespace {

Result<std::variant<Options, HelpText>> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "drafthorse");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(), Environment{});
}

Options options_of(std::vector<const char*> arguments) {
  auto parsed = parse(std::move(arguments));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? std::get<Options>(*parsed) : Options{};
}

std::string error_of(std::vector<const char*> arguments) {
  auto parsed = parse(std::move(arguments));
  EXPECT_FALSE(parsed);
  return parsed ? "" : parsed.error().message;
}

TEST(Options, ServeMapsOntoTheServer) {
  Options o = options_of({"serve",     "m.gguf", "--host",     "::1", "-p",      "0",   "--api-key",  "a",
                          "--api-key", "b",      "--cors",     "*",   "--grace", "2.5", "--parallel", "3",
                          "--queue",   "0",      "--max-body", "1M",  "--draft", "off", "--top-k",    "7"});
  EXPECT_EQ(o.command, "serve");
  EXPECT_EQ(o.model, "m.gguf");
  EXPECT_EQ(o.server.host, "::1");
  EXPECT_EQ(o.server.port, 0);
  EXPECT_EQ(o.server.api_keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.server.grace.count(), 2500);
  EXPECT_EQ(o.server.max_body, 1u << 20);
  LoadOptions load = load_options(o, "m.gguf");
  EXPECT_EQ(load.engine.max_running, 3);
  EXPECT_EQ(load.engine.max_queue, 0);
  EXPECT_EQ(load.engine.draft, "off");
  EXPECT_EQ(load.top_k, 7);
}

TEST(Options, ServeUsesEverySamplingFlagItTakes) {
  Options o = options_of({"serve", "m.gguf", "--temperature", "0.5", "--top-p", "0.9", "--min-p", "0.1",
                          "--repetition-penalty", "1.1", "--presence-penalty", "0.3", "--frequency-penalty", "0.2"});
  LoadOptions load = load_options(o, "m.gguf");
  EXPECT_EQ(load.temperature, 0.5f);
  EXPECT_EQ(load.top_p, 0.9f);
  EXPECT_EQ(load.min_p, 0.1f);
  EXPECT_EQ(load.repetition_penalty, 1.1f);
  EXPECT_EQ(load.presence_penalty, 0.3f);
  EXPECT_EQ(load.frequency_penalty, 0.2f);
  EXPECT_NE(error_of({"serve", "--seed", "1"}).find("unknown option"), std::string::npos);
  EXPECT_NE(error_of({"serve", "--max-draft", "1"}).find("unknown option"), std::string::npos);
}

TEST(Options, BenchDraftTakesListsOfKindsAndDepths) {
  Options o = options_of({"bench", "draft", "m.gguf", "--draft", "replay:0.5,0.7", "--draft", "replay+mtp:1", "--depth",
                          "2,16", "-n", "64", "--repeats", "5"});
  EXPECT_EQ(o.what, "draft");
  EXPECT_EQ(o.model, "m.gguf");
  EXPECT_EQ(o.bench_drafts, (std::vector<std::string>{"replay:0.5", "0.7", "replay+mtp:1"}));
  EXPECT_EQ(o.bench_depths, (std::vector<int>{2, 16}));
  EXPECT_EQ(o.max_tokens, 64);
  EXPECT_EQ(o.bench_repeats, 5);
  EXPECT_EQ(o.draft, "auto");
  EXPECT_NE(error_of({"bench", "draft", "--depth", "17"}).find("17"), std::string::npos);
  EXPECT_NE(error_of({"generate", "--draft", "replay:0.5"}).find("--draft"), std::string::npos);
}

TEST(Options, RangesAreNamedInWordsThatFitALine) {
  for (std::vector<const char*> wrong : {std::vector{"generate", "-n", "0"},
                                         {"generate", "--top-k", "-1"},
                                         {"generate", "--max-draft", "17"},
                                         {"run", "--repetition-penalty", "0"},
                                         {"serve", "--port", "65536"}}) {
    EXPECT_LT(error_of(wrong).size(), 120u) << error_of(wrong);
    EXPECT_NE(error_of(wrong).find("not in range"), std::string::npos) << error_of(wrong);
  }
}

TEST(Options, AbsentSamplingStaysAbsent) {
  SamplingFields fields = sampling_fields(options_of({"generate", "-p", "x"}));
  EXPECT_FALSE(fields.temperature || fields.top_p || fields.top_k || fields.min_p || fields.seed);
  fields = sampling_fields(options_of({"generate", "-p", "x", "--temperature", "0", "--seed", "0"}));
  EXPECT_EQ(fields.temperature, 0.0f);
  EXPECT_EQ(fields.seed, 0u);
}

TEST(Options, GenerateTakesItsPromptInThreeWays) {
  EXPECT_EQ(options_of({"generate", "-p", "x"}).prompt, "x");
  EXPECT_EQ(options_of({"generate", "x"}).prompt, "x");
  EXPECT_EQ(options_of({"generate", "-f", "x"}).prompt_file, "x");
  EXPECT_NE(error_of({"generate", "-p", "x", "-f", "y"}), "");
}

TEST(Options, AListOptionTakesOneValueAUse) {
  Options o = options_of({"generate", "--stop", "a", "the prompt", "--stop", "b"});
  EXPECT_EQ(o.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.prompt, "the prompt");
}

TEST(Options, ErrorsSayWhatWasMeant) {
  EXPECT_NE(error_of({"srve"}).find("did you mean serve?"), std::string::npos);
  EXPECT_NE(error_of({"serve", "--thread", "2"}).find("did you mean --threads?"), std::string::npos);
  EXPECT_NE(error_of({"serve", "--threads=x"}).find("--threads"), std::string::npos);
  EXPECT_NE(error_of({"generate", "--temperature", "-1"}).find("--temperature"), std::string::npos);
  EXPECT_NE(error_of({"generate", "--backend", "gpu"}).find("backend"), std::string::npos);
  EXPECT_NE(error_of({"bench"}).find("kernels, model"), std::string::npos);
  EXPECT_NE(error_of({}).find("serve"), std::string::npos);
  for (auto arguments : std::vector<std::vector<const char*>>{{"srve"}, {"bench"}, {"serve", "--thread", "2"}}) {
    EXPECT_EQ(error_of(arguments).find('\n'), std::string::npos);
  }
}

TEST(Options, EveryCommandHasHelp) {
  for (const char* command : {"serve", "run", "generate", "pull", "list", "inspect", "bench", "selftest"}) {
    auto parsed = parse({command, "--help"});
    ASSERT_TRUE(parsed) << command;
    EXPECT_NE(std::get<HelpText>(*parsed).text.find("Usage"), std::string::npos);
  }
}

TEST(Bytes, TakesUnits) {
  EXPECT_EQ(*parse_bytes("1000"), 1000u);
  EXPECT_EQ(*parse_bytes("8G"), 8ull << 30);
  EXPECT_EQ(*parse_bytes("512m"), 512ull << 20);
  EXPECT_EQ(*parse_bytes("1.5GiB"), 3ull << 29);
  for (const char* text : {"", "G", "-1G", "8X", "8GG", "nan", "inf", "1e30"}) EXPECT_FALSE(parse_bytes(text)) << text;
}

}  // namespace
}  // namespace drafthorse

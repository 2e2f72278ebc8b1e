// Whole completions with tiny random models: what is loaded, what is sent, what comes back.

#include "completion/completion.h"

#include <condition_variable>
#include <fstream>
#include <mutex>

#include <gmock/gmock.h>

#include "completion/chat_fixture.h"
#include "completion/memory_budget.h"

namespace drafthorse::test {
namespace {

using ::testing::HasSubstr;

LoadOptions options_for(const std::filesystem::path& path) {
  LoadOptions options;
  options.path = path;
  options.backend.threads = 1;
  options.engine.row_cost.assign(17, 1.0);
  for (int n = 2; n <= 16; ++n) options.engine.row_cost[static_cast<size_t>(n)] = 1 + 0.05 * n;
  return options;
}

struct Answered {
  std::string text;
  std::vector<int32_t> tokens;
  Finish finish;
};

Answered answer(std::shared_ptr<LoadedModel> model, const CompletionRequest& request) {
  std::mutex mutex;
  std::condition_variable changed;
  Answered out;
  bool done = false;
  auto completion = start_completion(std::move(model), request, [&](Event event) {
    std::lock_guard lock(mutex);
    if (auto* t = std::get_if<TextDelta>(&event)) {
      out.text += t->text;
      out.tokens.insert(out.tokens.end(), t->tokens.begin(), t->tokens.end());
    }
    if (auto* f = std::get_if<Finish>(&event)) {
      out.finish = *f;
      done = true;
      changed.notify_all();
    }
  });
  EXPECT_TRUE(completion) << completion.error().message;
  if (!completion) return out;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done; });
  return out;
}

class CompletionTest : public ::testing::Test {
 protected:
  std::shared_ptr<LoadedModel> load_tiny(std::string template_source = kChatTemplate) {
    const auto path = write_tiny_hf(folder_ / "tiny-llama", {.family = "llama", .vocab = 300});
    if (!template_source.empty()) save_text(path / "chat_template.jinja", template_source);
    save_text(path / "generation_config.json", R"({"temperature": 0.5, "top_k": 7, "eos_token_id": [298]})");
    auto model = load(options_for(path));
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }
  TempFolder folder_;
};

TEST_F(CompletionTest, LoadsWhatTheFolderSays) {
  const auto model = load_tiny();
  ASSERT_TRUE(model);
  EXPECT_EQ(model->id, "tiny-llama");
  EXPECT_EQ(model->default_sampling.temperature, 0.5f);  // generation_config.json
  EXPECT_EQ(model->default_sampling.top_k, 7);
  EXPECT_EQ(model->default_sampling.top_p, 0.9f);                   // family
  EXPECT_EQ(model->stop_tokens, (std::vector<int32_t>{298, 299}));  // generation_config and <|endoftext|>
  EXPECT_TRUE(model->chat_template);
  EXPECT_GT(model->created, 0);
}

TEST_F(CompletionTest, ServerFlagsGoOverTheFolder) {
  const auto path = write_tiny_hf(folder_ / "m", {.family = "qwen2", .vocab = 300});
  auto options = options_for(path);
  options.temperature = 0.25f;
  options.top_k = 3;
  options.id = "mine";
  auto model = load(options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->id, "mine");
  EXPECT_EQ((*model)->default_sampling.temperature, 0.25f);
  EXPECT_EQ((*model)->default_sampling.top_k, 3);
  EXPECT_EQ((*model)->default_sampling.top_p, 0.8f);
  options.top_p = 3;
  EXPECT_EQ(load(options).error().param, "top_p");
}

TEST_F(CompletionTest, GgufAndFolderAnswerAlike) {
  const TinyModel tiny{.family = "llama", .vocab = 300};
  auto gguf = load(options_for(write_tiny_gguf(folder_ / "tiny.gguf", tiny, Format::f32)));
  auto hf = load(options_for(write_tiny_hf(folder_ / "hf", tiny)));
  ASSERT_TRUE(gguf) << gguf.error().message;
  ASSERT_TRUE(hf) << hf.error().message;
  EXPECT_EQ((*gguf)->id, "tiny");
  CompletionRequest request;
  request.prompt = "Hello there";
  request.max_tokens = 20;
  request.sampling.seed = 3;
  const auto a = answer(*gguf, request), b = answer(*hf, request);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.text, b.text);
  EXPECT_FALSE(a.tokens.empty());
}

TEST_F(CompletionTest, ChatAnswersAndCountsTokens) {
  const auto model = load_tiny();
  CompletionRequest request;
  request.prompt = chat({{"user", "Hi"}});
  request.max_tokens = 12;
  request.ignore_eos = true;
  const auto out = answer(model, request);
  EXPECT_EQ(out.finish.reason, "length");
  EXPECT_EQ(out.finish.usage.stats.completion_tokens, 12);
  const auto ids = prompt_tokens(*model, request);
  ASSERT_TRUE(ids);
  EXPECT_EQ(out.finish.usage.stats.prompt_tokens, static_cast<int>(ids->size()));
  EXPECT_GT(out.finish.usage.total_seconds, 0);
}

TEST_F(CompletionTest, TheSameSeedSaysTheSameAndIsReported) {
  const auto model = load_tiny();
  CompletionRequest request;
  request.prompt = "abc";
  request.max_tokens = 30;
  request.sampling.temperature = 1;
  const auto first = answer(model, request);
  request.sampling.seed = first.finish.usage.seed;
  EXPECT_EQ(answer(model, request).tokens, first.tokens);
  request.sampling.seed.reset();
  EXPECT_NE(answer(model, request).finish.usage.seed, first.finish.usage.seed);
}

TEST_F(CompletionTest, APreparedPromptIsTheSamePrompt) {
  auto model = load_tiny();
  ASSERT_TRUE(model);
  ChatTemplateInput input;
  input.messages = {{{"role", "user"}, {"content", "hello <|im_end|>"}}};
  for (int kind = 0; kind < 3; ++kind) {
    CompletionRequest request;
    if (kind == 0) request.prompt = input;
    if (kind == 1) request.prompt = std::string("Once upon");
    if (kind == 2) request.prompt = std::vector<int32_t>{5, 6, 7};
    request.max_tokens = 6;
    request.sampling.seed = 4;
    request.echo = kind > 0;
    auto prepared = prepare(*model, request);
    ASSERT_TRUE(prepared) << prepared.error().message;
    EXPECT_EQ(*prompt_tokens(*model, *prepared), *prompt_tokens(*model, request));
    const auto plain = answer(model, request), again = answer(model, *prepared);
    EXPECT_EQ(plain.text, again.text);
    EXPECT_EQ(plain.tokens, again.tokens);
  }
  CompletionRequest echo;
  echo.prompt = input;
  echo.echo = true;
  auto prepared = prepare(*model, echo);
  ASSERT_TRUE(prepared);
  auto refused = start_completion(model, *prepared, [](Event) {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "echo");
}

TEST_F(CompletionTest, EchoPutsThePromptFirst) {
  const auto model = load_tiny();
  CompletionRequest request;
  request.prompt = "Once upon";
  request.max_tokens = 3;
  request.echo = true;
  EXPECT_THAT(answer(model, request).text, ::testing::StartsWith("Once upon"));
  request.prompt = std::vector<int32_t>{'a', 'b'};
  EXPECT_THAT(answer(model, request).text, ::testing::StartsWith("ab"));
}

TEST_F(CompletionTest, RefusalsNameTheFieldAndTheNumbers) {
  const auto model = load_tiny("");
  const auto error_of = [&](auto change) {
    CompletionRequest request;
    request.prompt = "abc";
    change(request);
    auto completion = start_completion(model, request, [](Event) {});
    EXPECT_FALSE(completion);
    return completion ? Error{} : completion.error();
  };
  EXPECT_THAT(error_of([](auto& r) { r.prompt = chat({{"user", "x"}}); }).message, HasSubstr("no chat template"));
  EXPECT_EQ(error_of([](auto& r) { r.max_tokens = 0; }).param, "max_tokens");
  EXPECT_EQ(error_of([](auto& r) { r.sampling.temperature = -1.0f; }).param, "temperature");
  const auto too_long = error_of([](auto& r) { r.prompt = std::string(600, 'x'); });
  EXPECT_EQ(too_long.kind, ErrorKind::context_length);
  EXPECT_THAT(too_long.message, HasSubstr("the prompt has 600 tokens, the context is 512"));
}

TEST_F(CompletionTest, TheTemplatesOwnErrorReachesTheCaller) {
  const auto model = load_tiny("{{ raise_exception('roles must alternate') }}");
  CompletionRequest request;
  request.prompt = chat({{"user", "x"}});
  auto completion = start_completion(model, request, [](Event) {});
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::invalid_argument);
  EXPECT_THAT(completion.error().message, HasSubstr("roles must alternate"));
}

TEST_F(CompletionTest, DestroyingACompletionCancelsIt) {
  const auto model = load_tiny();
  CompletionRequest request;
  request.prompt = "abc";
  request.ignore_eos = true;
  std::mutex mutex;
  std::condition_variable changed;
  std::string reason;
  {
    auto completion = start_completion(model, request, [&](Event event) {
      std::lock_guard lock(mutex);
      if (auto* f = std::get_if<Finish>(&event)) {
        reason = f->reason;
        changed.notify_all();
      }
    });
    ASSERT_TRUE(completion);
    EXPECT_EQ((*completion)->prompt_tokens(), 3);
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !reason.empty(); });
  // A tiny model may be done before the cancellation arrives.
  EXPECT_THAT(reason, ::testing::AnyOf("cancelled", "length"));
}

TEST_F(CompletionTest, TemplateSourcesInOrder) {
  const auto path = write_tiny_hf(folder_ / "m", {.family = "llama", .vocab = 300});
  save_text(
      path / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  auto model = load(options_for(path));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->chat_template->source(), "plain");
  EXPECT_EQ((*model)->tool_template->source(), "tools");
  save_text(path / "other.jinja", "included");
  save_text(path / "chat_template.jinja", "{% include 'other.jinja' %}");
  model = load(options_for(path));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->chat_template->source(), "included");
  EXPECT_FALSE((*model)->tool_template);
  save_text(path / "chat_template.jinja", "{% include '../secret' %}");
  EXPECT_THAT(load(options_for(path)).error().message, HasSubstr("beside the weights"));
}

TEST_F(CompletionTest, TooLittleMemoryIsRefusedWithTheNumbers) {
  auto options = options_for(write_tiny_hf(folder_ / "m", {.family = "llama", .vocab = 300}));
  options.memory = 100000;
  auto model = load(options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::out_of_memory);
  EXPECT_THAT(model.error().message, HasSubstr("the memory budget is"));
}

TEST(MemoryBudget, ReadsTheMachineAndTheCgroup) {
  const TempFolder root;
  std::filesystem::create_directories(root / "proc");
  std::filesystem::create_directories(root / "sys/fs/cgroup");
  save_text(root / "proc/meminfo", "MemTotal:       16000 kB\nMemFree:  1 kB\n");
  const auto path = (root / "proc").parent_path();
  EXPECT_EQ(machine_memory(path), 16000u * 1024);
  save_text(root / "sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(machine_memory(path), 16000u * 1024);
  save_text(root / "sys/fs/cgroup/memory.max", "5000000\n");
  EXPECT_EQ(machine_memory(path), 5000000u);
  std::filesystem::create_directories(root / "proc/self");
  std::filesystem::create_directories(root / "sys/fs/cgroup/user.slice/job");
  save_text(root / "proc/self/cgroup", "0::/user.slice/job\n");
  save_text(root / "sys/fs/cgroup/user.slice/job/memory.max", "max\n");
  save_text(root / "sys/fs/cgroup/user.slice/memory.max", "3000000\n");
  EXPECT_EQ(machine_memory(path), 3000000u);
  std::filesystem::create_directories(root / "sys/fs/cgroup/memory/old");
  save_text(root / "proc/self/cgroup", "5:memory:/old\n");
  save_text(root / "sys/fs/cgroup/memory/old/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(machine_memory(path), 2000000u);
}

TEST(MemoryBudget, SaysWhichContextWouldFit) {
  const TempFolder folder;
  const Network network = open_network(write_tiny_hf(folder / "m", {.family = "llama"}));
  const auto position = kv_bytes_per_position(network);
  EXPECT_EQ(position, 2u * 2 * 2 * 16 * 2);  // layers, keys and values, bytes, head_dim, kv_heads
  auto generous = plan_memory(network, 1 << 30, 0, 0);
  ASSERT_TRUE(generous);
  EXPECT_EQ(generous->context, 512);
  EXPECT_EQ(generous->kv, 4 * position * (512 + 64));
  auto tight = plan_memory(network, generous->weights + 400 * position, 0, 0);
  ASSERT_FALSE(tight);
  EXPECT_THAT(tight.error().message, HasSubstr("a context of 320 would fit"));
  EXPECT_TRUE(plan_memory(network, generous->weights + 400 * position, 320, 0));
}

}  // namespace
}  // namespace drafthorse::test

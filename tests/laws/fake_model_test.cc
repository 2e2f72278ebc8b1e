#include "support/fake_model.h"
#include "laws/laws.h"
#include "support/fake_head.h"

namespace drafthorse::test {
namespace {

std::vector<std::vector<int32_t>> random_prompts(size_t count, int vocab) {
  std::mt19937 random(5);
  std::vector<std::vector<int32_t>> prompts(count);
  for (auto& prompt : prompts) {
    prompt.resize(1 + random() % 150);
    for (auto& token : prompt) token = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  }
  return prompts;
}

TEST(Laws, OneAnswerOfTheFakeModel) {
  Subject subject;
  subject.make = [](int, const std::string&) {
    return std::make_unique<FakeModel>(FakeOptions{.repetitiveness = 0.9});
  };
  subject.prompts = random_prompts(40, 64);
  subject.answer = 100;
  expect_one_answer(subject, 0);
}

TEST(Laws, OneAnswerOfAModelWithRecurrentPartsAndAHead) {
  Subject subject;
  subject.make = [](int, const std::string&) {
    return std::make_unique<FakeModel>(FakeOptions{.repetitiveness = 0.7, .recurrent = true});
  };
  subject.make_head = [](Model& model) { return std::make_shared<FakeHead>(static_cast<FakeModel&>(model), 0.7); };
  subject.prompts = random_prompts(40, 64);
  subject.answer = 100;
  expect_one_answer(subject, 0);
}

// A law test must be able to fail: a model that forgets to forget refused drafts does not pass.
class ForgetfulState final : public State {
 public:
  explicit ForgetfulState(std::unique_ptr<State> inner) : inner(std::move(inner)) {}
  int length() const override { return length_; }
  void truncate(int length) override { length_ = length; }  // the tokens stay
  std::unique_ptr<State> inner;
  int length_ = 0;
};

class ForgetfulModel final : public Model {
 public:
  int vocab() const override { return inner_.vocab(); }
  int context() const override { return inner_.context(); }
  std::string description() const override { return "forgetful"; }
  std::vector<MemoryPart> memory() const override { return {}; }
  std::unique_ptr<State> new_state() override { return std::make_unique<ForgetfulState>(inner_.new_state()); }
  Status reserve(State&, int) override { return {}; }
  RunOutput run(std::span<const BatchItem> batch, const std::function<bool()>&) override {
    std::vector<BatchItem> items(batch.begin(), batch.end());
    for (auto& item : items) {
      auto& state = static_cast<ForgetfulState&>(*item.state);
      state.length_ += static_cast<int>(item.tokens.size());
      item.state = state.inner.get();
      (void)inner_.reserve(*item.state, static_cast<int>(item.tokens.size()));
    }
    return inner_.run(items, {});
  }

 private:
  FakeModel inner_{FakeOptions{.context = 100000, .repetitiveness = 0.9}};
};

TEST(Laws, AWrongRollbackIsSeen) {
  Subject subject;
  subject.make = [](int, const std::string&) { return std::make_unique<ForgetfulModel>(); };
  subject.prompts = random_prompts(3, 64);
  subject.answer = 60;
  const std::vector<Question> questions = {{0, true}, {1, true}, {2, true}};
  const auto plain = answers(subject, {.name = "plain"}, questions);
  const Way way{.name = "fuzz", .draft = "auto", .max_draft = 8, .fuzz = true};
  const auto drafted = answers(subject, way, questions, Truth{plain.tokens, {}});
  EXPECT_NE(plain.tokens, drafted.tokens);
}

}  // namespace
}  // namespace drafthorse::test

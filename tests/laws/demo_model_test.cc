// The trained model in the repository: the laws on weights whose drafts are often right, and what its head foresees.

#include "completion/model_settings.h"
#include "draft/mtp_probe.h"
#include "laws/laws.h"
#include "laws/texts.h"
#include "support/tiny_models.h"
#include "text/tokenizer.h"

namespace drafthorse::test {
namespace {

constexpr const char* kFixedText = R"(import json
import os


class Store:
    """Keeps values in a file, one JSON object a line."""

    def __init__(self, path):
        self.path = path
        self.values = {}
        if os.path.exists(path):
            self.load()

    def load(self):
        with open(self.path) as file:
            for line in file:
                line = line.strip()
                if not line:
                    continue
                entry = json.loads(line)
                self.values[entry["key"]] = entry["value"]

    def get(self, key, default=None):
        return self.values.get(key, default)

    def set(self, key, value):
        if not isinstance(key, str):
            raise TypeError("key must be a string, not %s" % type(key).__name__)
        self.values[key] = value
        self.save()

    def save(self):
        with open(self.path, "w") as file:
            for key, value in sorted(self.values.items()):
                file.write(json.dumps({"key": key, "value": value}))
                file.write("\n")
)";

struct Demo {
  std::shared_ptr<const Checkpoint> checkpoint;
  Network network;
  std::shared_ptr<const Tokenizer> tokenizer;

  Demo() {
    auto opened = Checkpoint::open(std::filesystem::path(DRAFTHORSE_SOURCE) / "models/drafthorse-demo-33m");
    if (!opened) throw std::runtime_error(opened.error().message);
    checkpoint = *opened;
    auto read = read_network(checkpoint);
    if (!read) throw std::runtime_error(read.error().message);
    network = std::move(*read);
    auto loaded = load_tokenizer(*checkpoint);
    if (!loaded) throw std::runtime_error(loaded.error().message);
    tokenizer = std::move(*loaded);
  }

  std::unique_ptr<Model> load(int threads, const std::string& isa = "auto") const {
    return make_model(network, threads, isa, 2048, 64u << 20);
  }

  static std::unique_ptr<Model> load_head(Model& model, const Network& head) {
    auto loaded = model.load_companion(head);
    if (!loaded) throw std::runtime_error(loaded.error().message);
    return std::move(*loaded);
  }
};

TEST(DemoLaws, OneAnswer) {
  const Demo demo;
  ASSERT_TRUE(demo.network.mtp);
  Subject subject;
  subject.make = [&](int threads, const std::string& isa) { return demo.load(threads, isa); };
  subject.make_head = [&](Model& model) -> std::shared_ptr<Model> { return Demo::load_head(model, *demo.network.mtp); };
  for (const auto& text : texts())
    subject.prompts.push_back(demo.tokenizer->encode(
        "<|im_start|>user\n" + text + "<|im_end|>\n<|im_start|>assistant\n", {.parse_special = true}));
  ASSERT_EQ(subject.prompts.size(), 40u);
  subject.answer = 16;
  subject.isas = {"avx2", "avx512", "neon"};  // the tiny models cover the portable kernels, which are slow
  expect_one_answer(subject, 2);
}

// The head foresees the trunk's choice on fixed text if and only if it is joined as it was trained.
TEST(DemoHead, ForeseesFixedTextAsItIsJoinedAndNotOtherwise) {
  const Demo demo;
  const auto tokens = demo.tokenizer->encode(kFixedText);
  ASSERT_GT(tokens.size(), 200u);
  const auto model = demo.load(2);
  const auto agreement = [&](Hidden hidden, bool embedding_first, float norm_offset) {
    Network variant = *demo.network.mtp;
    variant.joined_input->embedding_first = embedding_first;
    variant.joined_input->embedding_norm.weight_offset += norm_offset;
    variant.joined_input->hidden_norm.weight_offset += norm_offset;
    const auto head = Demo::load_head(*model, variant);
    auto share = head_agreement(*model, *head, hidden, tokens);
    if (!share) throw std::runtime_error(share.error().message);
    return *share;
  };
  const double right = agreement(Hidden::after_norm, true, 0), order = agreement(Hidden::after_norm, false, 0);
  const double hidden = agreement(Hidden::before_norm, true, 0), norms = agreement(Hidden::after_norm, true, -1);
  std::printf("agreement at depth 1: %.3f; other order %.3f, before the norm %.3f, other norms %.3f\n", right, order,
              hidden, norms);
  EXPECT_GT(right, 0.5);
  EXPECT_LT(order, 0.3);
  EXPECT_LT(hidden, right - 0.02);
  EXPECT_LT(norms, right - 0.1);
}

}  // namespace
}  // namespace drafthorse::test

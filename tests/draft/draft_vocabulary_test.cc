#include "draft/draft_vocabulary.h"

#include <gtest/gtest.h>

#include <vector>

namespace drafthorse {
namespace {

constexpr int kVocab = 248320;

TEST(DraftVocabulary, TextOfFrequentTokensDraftsFromTheFirstOnes) {
  EXPECT_EQ(draft_columns({}, kVocab), 32768);
  std::vector<int32_t> text(300, 1000);
  EXPECT_EQ(draft_columns(text, kVocab), 32768);
  for (int i = 0; i < 16; ++i) text[static_cast<size_t>(280 - 10 * i)] = 40000;
  EXPECT_EQ(draft_columns(text, kVocab), 32768);
}

TEST(DraftVocabulary, TextOfRareTokensDraftsFromMoreOrAll) {
  std::vector<int32_t> text(300, 1000);
  for (size_t i = 0; i < text.size(); i += 5) text[i] = 60000;
  EXPECT_EQ(draft_columns(text, kVocab), 65536);
  for (size_t i = 0; i < text.size(); i += 5) text[i] = 240000;
  EXPECT_EQ(draft_columns(text, kVocab), 0);
  text.insert(text.end(), 256, 7);  // only the latest count
  EXPECT_EQ(draft_columns(text, kVocab), 32768);
}

TEST(DraftVocabulary, MarkersOfAShortPromptSayNothing) {
  EXPECT_EQ(draft_columns(std::vector<int32_t>{248045, 846, 198, 9707, 248046, 198, 248045, 74455, 198}, kVocab),
            32768);
  EXPECT_EQ(draft_columns(std::vector<int32_t>{248045, 100000, 110000, 120000, 130000, 140000, 198}, kVocab), 0);
}

TEST(DraftVocabulary, SmallVocabulariesAreUsedWhole) {
  EXPECT_EQ(draft_columns({}, 49152), 0);
  EXPECT_EQ(draft_columns({}, 65536), 32768);
}

}  // namespace
}  // namespace drafthorse

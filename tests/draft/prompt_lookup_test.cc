#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <random>

#include "draft/drafter.h"

namespace drafthorse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> proposal_after(const std::vector<int32_t>& tokens, int limit) {
  auto drafter = make_prompt_lookup();
  drafter->extend(tokens);
  return drafter->propose(limit);
}

// The longest earlier occurrence of the end of `tokens`: its length, and the latest position that follows one.
struct Match {
  int length = 0, next = -1;
};
Match naive_match(const std::vector<int32_t>& tokens) {
  Match best;
  const int size = static_cast<int>(tokens.size());
  for (int next = 1; next < size; ++next) {
    int n = 0;
    while (n < next && tokens[static_cast<size_t>(next - 1 - n)] == tokens[static_cast<size_t>(size - 1 - n)]) ++n;
    if (n >= best.length) best = {n, next};
  }
  return best;
}

TEST(PromptLookup, ProposesWhatFollowedBefore) {
  EXPECT_THAT(proposal_after({1, 2, 3, 4, 5, 9, 1, 2, 3}, 2), ElementsAre(4, 5));
  EXPECT_THAT(proposal_after({1, 2, 3, 4, 5, 9, 1, 2, 3}, 5), ElementsAre(4, 5, 9, 1, 2));
}

TEST(PromptLookup, HasNoIdeaWithoutThreeEqualTokens) {
  EXPECT_THAT(proposal_after({}, 4), IsEmpty());
  EXPECT_THAT(proposal_after({1}, 4), IsEmpty());
  EXPECT_THAT(proposal_after({1, 2, 3, 4}, 4), IsEmpty());
  EXPECT_THAT(proposal_after({7, 1, 2, 5, 8, 1, 2}, 4), IsEmpty());
  EXPECT_THAT(proposal_after({1, 2, 3, 1, 2, 3}, 0), IsEmpty());
}

TEST(PromptLookup, PrefersTheLongerMatchThenTheLater) {
  // 5 1 2 3 -> 8 is longer than the later 6 1 2 3 -> 9.
  EXPECT_THAT(proposal_after({5, 1, 2, 3, 8, 6, 1, 2, 3, 9, 5, 1, 2, 3}, 1), ElementsAre(8));
  EXPECT_THAT(proposal_after({1, 2, 3, 8, 0, 1, 2, 3, 9, 7, 1, 2, 3}, 1), ElementsAre(9));
}

TEST(PromptLookup, ARepetitionGoesOnBeyondItsOwnEnd) {
  EXPECT_THAT(proposal_after({1, 2, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(proposal_after({4, 4, 4, 4}, 3), ElementsAre(4, 4, 4));
}

TEST(PromptLookup, GoesOnAfterAnEdit) {
  std::vector<int32_t> file;
  for (int i = 0; i < 40; ++i) file.push_back(100 + i);
  auto tokens = file;
  tokens.insert(tokens.end(), {1, 2});
  tokens.insert(tokens.end(), file.begin(), file.begin() + 20);
  auto drafter = make_prompt_lookup();
  drafter->extend(tokens);
  EXPECT_THAT(drafter->propose(2), ElementsAre(120, 121));
  drafter->extend(std::vector<int32_t>{7, 8});  // in place of 120; nothing like it before
  EXPECT_THAT(drafter->propose(2), IsEmpty());
  drafter->extend(std::vector<int32_t>{121});
  EXPECT_THAT(drafter->propose(2), ElementsAre(122, 123));
  EXPECT_EQ(drafter->evidence(), 0);
  drafter->extend(std::vector<int32_t>{122, 123, 124});
  EXPECT_THAT(drafter->propose(1), ElementsAre(125));
  EXPECT_GT(drafter->evidence(), 0);
}

TEST(PromptLookup, EvidenceRisesWithTheMatch) {
  std::vector<int32_t> file;
  for (int i = 0; i < 60; ++i) file.push_back(i);
  auto drafter = make_prompt_lookup();
  drafter->extend(file);
  drafter->extend(std::vector<int32_t>{99});
  int before = -1;
  for (int i = 0; i < 40; ++i) {
    drafter->extend(std::span(file).subspan(static_cast<size_t>(i), 1));
    if (drafter->propose(1).empty()) continue;
    EXPECT_GE(drafter->evidence(), before);
    before = drafter->evidence();
  }
  EXPECT_EQ(before, kEvidenceClasses - 1);
}

// Over few symbols every sequence is full of matches; the chains are longer than what a search looks at only where
// the match in progress was the longest already, so the answer is the naive one.
RC_GTEST_PROP(PromptLookup, EqualsANaiveSearchWhereAMatchExists, ()) {
  const auto tokens = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, 12));
  const auto match = naive_match(tokens);
  const auto draft = proposal_after(tokens, 1);
  if (match.length < 3) {
    RC_ASSERT(draft.empty());
  } else {
    RC_ASSERT(draft.size() == 1u);
    RC_ASSERT(draft[0] == tokens[static_cast<size_t>(match.next)]);
  }
}

RC_GTEST_PROP(PromptLookup, GrowingStepByStepFindsAMatchAsLong, ()) {
  const auto tokens = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(0, 4));
  auto drafter = make_prompt_lookup();
  std::vector<int32_t> seen;
  for (int32_t token : tokens) {
    drafter->extend(std::span(&token, 1));
    seen.push_back(token);
    const auto draft = drafter->propose(16);
    const auto match = naive_match(seen);
    if (match.length >= 3) RC_ASSERT(draft.size() == 16u);
    if (draft.empty()) continue;
    // Whatever it proposes followed an equal end somewhere: as long a one as there is, or a realignment's.
    const int needed = drafter->evidence() == 0 ? 1 : match.length;
    bool found = false;
    for (size_t next = 1; next < seen.size() && !found; ++next) {
      int n = 0;
      while (n < needed && static_cast<size_t>(n) < next &&
             seen[next - 1 - static_cast<size_t>(n)] == seen[seen.size() - 1 - static_cast<size_t>(n)])
        ++n;
      if (n < needed) continue;
      found = true;
      for (size_t i = 0; i < draft.size() && found; ++i) {
        const size_t from = next + i;
        found = draft[i] == (from < seen.size() ? seen[from] : draft[from - seen.size()]);
      }
    }
    RC_ASSERT(found);
  }
}

TEST(PromptLookup, AGrownRealignmentGivesWayToALongerMatch) {
  auto drafter = make_prompt_lookup();
  drafter->extend(std::vector<int32_t>{4, 5, 6, 7, 80});  // what comes back at the end
  drafter->extend(std::vector<int32_t>{10, 11, 12, 13, 14, 15, 16, 17, 5, 6, 7, 90});
  drafter->extend(std::vector<int32_t>{10, 11, 12, 13, 14, 15, 16, 17});  // a copy
  EXPECT_THAT(drafter->propose(1), ElementsAre(5));
  drafter->extend(std::vector<int32_t>{4});  // then an edit
  drafter->propose(1);
  drafter->extend(std::vector<int32_t>{5});
  EXPECT_THAT(drafter->propose(1), ElementsAre(6));
  drafter->extend(std::vector<int32_t>{6});
  drafter->propose(1);
  drafter->extend(std::vector<int32_t>{7});
  EXPECT_THAT(drafter->propose(1), ElementsAre(80));  // 4 5 6 7 is longer than the realignment's 5 6 7
}

TEST(PromptLookup, ManyTokensStayFast) {
  std::mt19937 random(1);
  for (int symbols : {2, 50, 50000}) {
    auto drafter = make_prompt_lookup();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200000; ++i) {
      const auto token = static_cast<int32_t>(random() % static_cast<unsigned>(symbols));
      drafter->extend(std::span(&token, 1));
      if (i % 4 == 0) drafter->propose(16);
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    EXPECT_LT(spent.count(), 10) << symbols << " symbols";  // 50 us a token; about 1 us in a release build
  }
}

}  // namespace
}  // namespace drafthorse

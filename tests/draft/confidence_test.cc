#include "draft/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace drafthorse {
namespace {

TEST(Confidence, IsTheTokensProbability) {
  const std::vector<float> logits = {1, 3, -std::numeric_limits<float>::infinity(), 2};
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  EXPECT_NEAR(probability_of(logits, 1), std::exp(3.0) / sum, 1e-6);
  EXPECT_NEAR(probability_of(logits, 0), std::exp(1.0) / sum, 1e-6);
  EXPECT_EQ(probability_of(logits, 2), 0);
}

TEST(Confidence, OddRowsGiveSomeClass) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& row : {std::vector{nan, 1.0f}, {infinity, 1.0f}, {-infinity, -infinity}, {0.0f}}) {
    const int found = confidence_class(probability_of(row, 0));
    EXPECT_GE(found, 0);
    EXPECT_LT(found, kEvidenceClasses);
  }
  EXPECT_EQ(confidence_class(0), 0);
  EXPECT_EQ(confidence_class(0.6f), 2);
  EXPECT_EQ(confidence_class(1), kEvidenceClasses - 1);
}

}  // namespace
}  // namespace drafthorse

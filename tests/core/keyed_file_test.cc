#include "core/keyed_file.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace drafthorse {
namespace {

TEST(KeyedFile, KeepsValuesByKeyAndReplacesThem) {
  const test::TempFolder folder;
  const std::string file = (folder / "deep" / "facts.tsv").string();
  EXPECT_EQ(read_keyed(file, "a"), "");
  EXPECT_TRUE(write_keyed(file, "a", "one"));
  EXPECT_TRUE(write_keyed(file, "a b", "two"));
  EXPECT_TRUE(write_keyed(file, "a", "three"));
  EXPECT_EQ(read_keyed(file, "a"), "three");
  EXPECT_EQ(read_keyed(file, "a b"), "two");
  EXPECT_EQ(read_keyed(file, "b"), "");
}

TEST(KeyedFile, KeysAndValuesStayOnTheirLine) {
  const test::TempFolder folder;
  const std::string file = (folder / "facts.tsv").string();
  EXPECT_TRUE(write_keyed(file, "a\tb\nc", "x\ny\tz"));
  EXPECT_EQ(read_keyed(file, "a b c"), "x y z");
}

TEST(KeyedFile, TheOldestGo) {
  const test::TempFolder folder;
  const std::string file = (folder / "facts.tsv").string();
  for (int i = 0; i < 70; ++i) EXPECT_TRUE(write_keyed(file, std::to_string(i), "v"));
  EXPECT_EQ(read_keyed(file, "5"), "");
  EXPECT_EQ(read_keyed(file, "6"), "v");
}

TEST(KeyedFile, WhatCannotBeWrittenIsNoCrash) {
  EXPECT_FALSE(write_keyed("", "a", "b"));
  EXPECT_FALSE(write_keyed("/proc/nowhere/facts.tsv", "a", "b"));
}

}  // namespace
}  // namespace drafthorse

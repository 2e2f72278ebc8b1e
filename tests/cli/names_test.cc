#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cli/hub_cache.h"
#include "cli/model_name.h"
#include "core/safe_path.h"

namespace drafthorse {
namespace {

TEST(HubName, TakesEveryPart) {
  auto name = parse_hub_name("hf:org/m-1.5:q4_k_m@v1.0");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->repo, "org/m-1.5");
  EXPECT_EQ(name->quant, "q4_k_m");
  EXPECT_EQ(name->file, "");
  EXPECT_EQ(name->revision, "v1.0");
  EXPECT_EQ(name->text(), "hf:org/m-1.5:q4_k_m@v1.0");
}

TEST(HubName, TellsFilesFromQuantisations) {
  EXPECT_EQ(parse_hub_name("hf:a/b:c.gguf")->file, "c.gguf");
  EXPECT_EQ(parse_hub_name("hf:a/b:sub/c")->file, "sub/c");
  EXPECT_EQ(parse_hub_name("hf:a/b:Q8_0")->quant, "Q8_0");
  EXPECT_EQ(parse_hub_name("hf:a/b")->revision, "main");
}

TEST(HubName, RefusesWhatCouldLeaveAFolder) {
  for (const char* text : {"hf:", "hf:a", "hf:/b", "hf:a/", "hf:a/b/c", "hf:../b", "hf:a/..", "hf:a/b:../c",
                           "hf:a/b:/c", "hf:a/b:", "hf:a/b@", "hf:a/b@../x", "hf:a/b:c\\d", "hf:a/b:\x01"}) {
    EXPECT_FALSE(parse_hub_name(text)) << text;
  }
}

RC_GTEST_PROP(HubName, ParsesWhatItPrints, ()) {
  auto part = [] {
    return *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::element('a', 'B', '0', '.', '-', '_')));
  };
  HubName name{part() + "x/" + part() + "x", "", part() + "x", part() + "x"};
  auto parsed = parse_hub_name(name.text());
  RC_ASSERT(parsed.ok());
  RC_ASSERT(parsed->text() == name.text());
}

TEST(SafePath, ComponentsAreChecked) {
  EXPECT_TRUE(is_safe_path("a/b.c/d"));
  for (const char* path : {"", "/", "/a", "a/", "a//b", "a/../b", ".", "..", "a/.", "a\nb"})
    EXPECT_FALSE(is_safe_path(path)) << path;
}

TEST(Split, PartsAreFoundInTheName) {
  EXPECT_EQ(split_parts("m-00001-of-00003.gguf"), 3);
  EXPECT_EQ(split_parts("m.gguf"), 1);
  EXPECT_EQ(split_parts("m-0001-of-0003.gguf"), 1);
  EXPECT_EQ(split_parts("-00001-of-00000.gguf"), 1);
  EXPECT_EQ(split_part_name("m-00001-of-00012.gguf", 12), "m-00012-of-00012.gguf");
}

TEST(Quant, IsAWholeWord) {
  EXPECT_TRUE(has_quant("m-Q4_K_M.gguf", "q4_k_m"));
  EXPECT_TRUE(has_quant("m.Q4_1.gguf", "Q4_1"));
  EXPECT_FALSE(has_quant("m-IQ4_XS.gguf", "q4_xs"));
  EXPECT_FALSE(has_quant("m-Q4_K_M.gguf", "Q4_K"));
  EXPECT_FALSE(has_quant("m-Q4_0.gguf", "Q4_1"));
}

TEST(Nearest, FindsWhatWasMeant) {
  std::vector<std::string> words = {"serve", "selftest", "--threads", "--temperature"};
  EXPECT_EQ(nearest("srve", words), "serve");
  EXPECT_EQ(nearest("evrse", words), std::nullopt);
  EXPECT_EQ(nearest("--thread", words), "--threads");
  EXPECT_EQ(nearest("xyz", words), std::nullopt);
}

TEST(Catalogue, NamesAreGoodHubNames) {
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_TRUE(entry.shipped() || parse_hub_name(entry.hub)) << entry.alias;
    EXPECT_EQ(entry.package.empty(), entry.sha256.empty()) << "a package without a pinned digest: " << entry.alias;
    EXPECT_EQ(find_in_catalogue(entry.alias), &entry);
  }
}

}  // namespace
}  // namespace drafthorse

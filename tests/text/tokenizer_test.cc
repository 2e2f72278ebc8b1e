// What the tokenizers promise beside equality: plain text stays plain, errors name their cause, streams end equal.

#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/support/tokenizer_fixtures.h"
#include "text/unicode.h"

namespace drafthorse {
namespace {

using namespace test;

std::shared_ptr<const Tokenizer> family(const std::string& name) {
  return load_tokenizer(tokenizer_data() / (name + ".json"));
}

std::string stream(const std::shared_ptr<const Tokenizer>& tokenizer, std::span<const int32_t> ids, bool keep_special) {
  StreamDecoder decoder(tokenizer, keep_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(is_valid_utf8(part));
    text += part;
  }
  return text + decoder.finish();
}

// Any code points, with those that tokenisers treat in their own ways made frequent.
rc::Gen<std::string> valid_text() {
  const auto point = rc::gen::weightedOneOf<uint32_t>(
      {{8, rc::gen::inRange<uint32_t>(0x20, 0x7F)},
       {3, rc::gen::element<uint32_t>(' ', '\n', '\t', '\r', '\'', 's', '1', 0x2581, 0x301, 0xA0, 0x120, 0xDF)},
       {2, rc::gen::inRange<uint32_t>(0, 0x800)},
       {2, rc::gen::inRange<uint32_t>(0x800, 0xD800)},
       {1, rc::gen::inRange<uint32_t>(0xE000, 0x110000)}});
  return rc::gen::map(rc::gen::container<std::vector<uint32_t>>(point), [](const std::vector<uint32_t>& points) {
    std::string text;
    for (const uint32_t c : points) append_utf8(text, c);
    return text;
  });
}

TEST(Tokenizer, DecodingGivesTheTextBack) {
  // Not metaspace: it adds no space to a text that starts with one, yet decoding takes one away.
  for (const char* name : {"llama3", "smollm", "tekken", "gpt4o", "mistral", "gemma", "scores.gguf"}) {
    const auto tokenizer = family(name);
    ASSERT_TRUE(tokenizer);
    const bool marks = tokenizer->replaces_each_invalid_byte();
    EXPECT_TRUE(rc::check(std::string("round trip, ") + name, [&] {
      std::string text = *valid_text();
      for (const bool parse_special : {false, true}) {
        // Behind markup these two families begin a text anew, with a space: AFamilyWithAPrefixSpaceSetsOneBehindMarkup.
        if (parse_special && marks && (text.find("<s>") != text.npos || text.find("</s>") != text.npos)) continue;
        const auto ids = tokenizer->encode(text, {.parse_special = parse_special});
        std::string expected = text;  // with ▁ for spaces a ▁ of the text comes back as a space
        for (size_t at = 0; marks && (at = expected.find("\u2581", at)) != std::string::npos;)
          expected.replace(at, 3, " ");
        RC_ASSERT(tokenizer->decode(ids, true) == expected);
      }
    })) << name;
  }
}

// As Hugging Face's tokenizers do with a normaliser that prepends a space: it sees each text between markup by itself.
TEST(Tokenizer, AFamilyWithAPrefixSpaceSetsOneBehindMarkup) {
  for (const char* name : {"mistral", "scores.gguf"}) {
    const auto tokenizer = family(name);
    const auto back = [&](const std::string& text, bool parse_special) {
      return tokenizer->decode(tokenizer->encode(text, {.parse_special = parse_special}), true);
    };
    EXPECT_EQ(back("a<s>b</s>", true), "a<s> b</s>") << name;
    EXPECT_EQ(back("<s>\uE000", true), "<s> \uE000") << name;
    EXPECT_EQ(back("a<s>b</s>", false), "a<s>b</s>") << name;
  }
}

TEST(Tokenizer, NormalisingFamiliesGiveTheNormalFormBack) {
  for (const char* name : {"qwen2", "qwen35"}) {
    const auto tokenizer = family(name);
    EXPECT_TRUE(rc::check(std::string("round trip, ") + name, [&] {
      const std::string text = *valid_text();
      RC_ASSERT(tokenizer->decode(tokenizer->encode(text), true) == normalise(text, NormalForm::nfc));
    }));
  }
}

TEST(Tokenizer, AnyBytesAreAccepted) {
  const auto tokenizer = family("llama3");
  EXPECT_TRUE(rc::check("invalid UTF-8", [&](const std::string& bytes) {
    RC_ASSERT(tokenizer->encode(bytes) == tokenizer->encode(replace_invalid_utf8(bytes)));
    RC_ASSERT(tokenizer->decode(tokenizer->encode(bytes)) == replace_invalid_utf8(bytes));
  }));
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(Tokenizer, StreamsEndEqualToTheWholeAndNeverBreakACharacter) {
  for (const char* name : {"qwen35", "smollm", "tekken", "mistral", "gemma", "scores.gguf", "scores_plain.gguf"}) {
    const auto tokenizer = family(name);
    EXPECT_TRUE(rc::check(std::string("random ids, ") + name, [&] {
      // Out of range on both sides too: padded rows of a vocabulary have ids without a token.
      const auto ids = *rc::gen::container<std::vector<int32_t>>(rc::gen::inRange(-3, tokenizer->vocab_size() + 3));
      for (const bool keep_special : {false, true})
        RC_ASSERT(stream(tokenizer, ids, keep_special) == tokenizer->decode(ids, keep_special));
    }));
    EXPECT_TRUE(rc::check(std::string("text, ") + name, [&] {
      const auto ids = tokenizer->encode(*valid_text());
      RC_ASSERT(stream(tokenizer, ids, true) == tokenizer->decode(ids, true));
    }));
  }
}

TEST(Tokenizer, AReplacementCharacterOfTheModelIsNotHeldBack) {
  const auto tokenizer = family("smollm");
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : tokenizer->encode("\uFFFD")) text += decoder.push(id);
  EXPECT_EQ(text, "\uFFFD");
}

TEST(Tokenizer, PlainTextNeverBecomesMarkup) {
  for (const char* name : {"qwen2", "llama3", "tekken", "mistral", "gemma", "scores_plain.gguf"}) {
    const auto tokenizer = family(name);
    std::vector<std::string> markup;
    for (const std::string_view token : tokenizer->added_tokens())
      if (token.find_first_not_of(" \n\u2581") != std::string_view::npos) markup.emplace_back(token);
    ASSERT_FALSE(markup.empty());
    EXPECT_TRUE(rc::check(std::string("look-alikes, ") + name, [&] {
      std::string text;
      for (int i = *rc::gen::inRange(1, 5); i > 0; --i) text += *valid_text() + *rc::gen::elementOf(markup);
      const auto ids = tokenizer->encode(text);
      for (const std::string& token : markup)
        RC_ASSERT(std::find(ids.begin(), ids.end(), *tokenizer->token_id(token)) == ids.end());
    })) << name;
    const std::string text = "a" + markup.front() + "b";
    const auto parsed = tokenizer->encode(text, {.parse_special = true});
    EXPECT_NE(std::find(parsed.begin(), parsed.end(), *tokenizer->token_id(markup.front())), parsed.end());
  }
}

TEST(Tokenizer, SpecialTokensAreHiddenUnlessAskedFor) {
  const auto tokenizer = family("qwen2");
  const auto ids = tokenizer->encode("<|im_start|>a<think>b</think><|im_end|>", {.parse_special = true});
  EXPECT_EQ(tokenizer->decode(ids), "a<think>b</think>");
  EXPECT_EQ(tokenizer->decode(ids, true), "<|im_start|>a<think>b</think><|im_end|>");
  EXPECT_TRUE(tokenizer->is_special(*tokenizer->token_id("<|im_end|>")));
  EXPECT_FALSE(tokenizer->is_special(*tokenizer->token_id("<think>")));
  EXPECT_FALSE(tokenizer->is_special(-1));
  EXPECT_FALSE(tokenizer->is_special(tokenizer->vocab_size()));
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->vocab_size()), "");
  EXPECT_FALSE(tokenizer->token_id("no such token"));
}

TEST(Tokenizer, BosIsAddedOnceWhereTheFileSaysSo) {
  const auto llama = family("llama3");
  ASSERT_TRUE(llama->bos());
  EXPECT_TRUE(llama->adds_bos());
  EXPECT_EQ(llama->encode("x", {.add_bos = true}).front(), *llama->bos());
  EXPECT_NE(llama->encode("x").front(), *llama->bos());
  const auto twice = llama->encode("<|begin_of_text|>x", {.parse_special = true, .add_bos = true});
  EXPECT_EQ(std::count(twice.begin(), twice.end(), *llama->bos()), 1);
  const auto qwen = family("qwen2");
  EXPECT_FALSE(qwen->adds_bos());
  EXPECT_EQ(qwen->encode("x", {.add_bos = true}), qwen->encode("x"));
}

TEST(Tokenizer, OnlyOneLeadingSpaceIsStripped) {
  const auto tokenizer = family("mistral");
  EXPECT_TRUE(tokenizer->strips_leading_space());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("   x  y")), "   x  y");
  EXPECT_EQ(stream(tokenizer, tokenizer->encode("   x  y"), false), "   x  y");
  EXPECT_FALSE(family("gemma")->strips_leading_space());
}

TEST(Tokenizer, ConfigNamesBosAndEos) {
  const std::string file = read_file(tokenizer_data() / "qwen2.json");
  const auto tokenizer = Tokenizer::from_json(
      file, R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|endoftext|>", "add_bos_token": true})");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->eos(), (*tokenizer)->token_id("<|im_end|>"));
  EXPECT_EQ((*tokenizer)->bos(), (*tokenizer)->token_id("<|endoftext|>"));
  EXPECT_TRUE((*tokenizer)->adds_bos());
  const auto wrong = Tokenizer::from_json(file, R"({"eos_token": "<nothing>"})");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("<nothing>"), std::string::npos);
}

std::string small(const std::string& replaced, const std::string& by) {
  std::string text =
      R"({"added_tokens":[{"id":3,"content":"<x>","special":true}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
      R"("decoder":{"type":"ByteLevel"},"post_processor":null,"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";
  const size_t at = text.find(replaced);
  EXPECT_NE(at, std::string::npos) << replaced;
  return text.replace(at, replaced.size(), by);
}

TEST(Tokenizer, FilesThatAreNotUnderstoodAreErrorsThatNameTheCause) {
  struct {
    const char *replaced, *by, *named;
  } const cases[] = {
      {R"("normalizer":null)", R"("normalizer":{"type":"Precompiled"})", "Precompiled"},
      {R"("normalizer":null)", R"("normalizer":{"type":"Replace","pattern":{"Regex":"("},"content":""})",
       "does not compile"},
      {R"("normalizer":null)", R"("normalizer":{"type":"Replace","pattern":{"String":""},"content":""})", "pattern"},
      {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", R"({"type":"UnicodeScripts"})",
       "UnicodeScripts"},
      {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", "null", "ByteLevel"},
      {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})",
       R"({"type":"Split","pattern":{"Regex":"[a&&b]"},"behavior":"Isolated"})", "&&"},
      {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})",
       R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Sideways"})", "Sideways"},
      {R"("decoder":{"type":"ByteLevel"})", R"("decoder":{"type":"WordPiece"})", "WordPiece"},
      {R"("decoder":{"type":"ByteLevel"})", R"("decoder":null)", "decoder"},
      {R"("post_processor":null)", R"("post_processor":{"type":"BertProcessing"})", "BertProcessing"},
      {R"("type":"BPE")", R"("type":"Unigram")", "Unigram"},
      {R"("type":"BPE")", R"("type":"BPE","end_of_word_suffix":"</w>")", "end_of_word_suffix"},
      {R"("type":"BPE")", R"("type":"BPE","unk_token":"<unk>")", "<unk>"},
      {R"("a b")", R"("a c")", "\"c\""},
      {R"("a b")", R"("ab")", "merges[0]"},
      {R"("a b")", R"(["a",""])", "empty"},
      {R"("b":1)", R"("b":-1)", "-1"},
      {R"("b":1)", R"("b":1000000000000)", "1000000000000"},
      {R"("b":1)", R"("b":0)", "id 0"},
      {R"("id":3)", R"("id":0)", "id 0"},
      {R"("model":)", R"("modal":)", "model"},
      {R"({"added_tokens")", R"({{"added_tokens")", "JSON"},
  };
  ASSERT_TRUE(Tokenizer::from_json(small("null", "null"), ""));
  for (const auto& c : cases) {
    const auto tokenizer = Tokenizer::from_json(small(c.replaced, c.by), "");
    ASSERT_FALSE(tokenizer) << c.by;
    EXPECT_NE(tokenizer.error().message.find(c.named), std::string::npos) << c.by << ": " << tokenizer.error().message;
  }
}

TEST(Tokenizer, UnknownGgufVocabulariesAreErrorsThatSayWhatIsKnown) {
  GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "nobody-knows";
  v.tokens = {"a", "b", "ab"};
  v.merges = {"a b"};
  const auto pre = Tokenizer::from_gguf(v);
  ASSERT_FALSE(pre);
  EXPECT_NE(pre.error().message.find("nobody-knows"), std::string::npos);
  EXPECT_NE(pre.error().message.find("smollm"), std::string::npos);
  v.pre = "gpt-2";
  ASSERT_TRUE(Tokenizer::from_gguf(v));
  EXPECT_EQ((*Tokenizer::from_gguf(v))->encode("aab"), (std::vector<int32_t>{0, 2}));
  v.merges = {"ab"};
  EXPECT_FALSE(Tokenizer::from_gguf(v));
  v.merges = {""};
  EXPECT_FALSE(Tokenizer::from_gguf(v));
  v.merges = {"a b"};
  v.eos = 3;
  EXPECT_FALSE(Tokenizer::from_gguf(v));
  v.eos = 2;
  v.token_types = {1};
  EXPECT_FALSE(Tokenizer::from_gguf(v));
  v.token_types.clear();
  v.model = "llama";
  EXPECT_FALSE(Tokenizer::from_gguf(v));  // scores are missing
  v.model = "bert";
  ASSERT_FALSE(Tokenizer::from_gguf(v));
  EXPECT_NE(Tokenizer::from_gguf(v).error().message.find("bert"), std::string::npos);
}

TEST(Tokenizer, Gemma4NewlineRunsThatAreTokensStayWhole) {
  GgufVocabulary v;
  v.model = "gemma4";
  v.tokens = {"<unk>", "a", "\n", "\n\n\n", "\u2581", "\u2581a"};
  v.token_types = {2, 1, 1, 1, 1, 1};
  v.merges = {"\u2581 a"};
  v.unk = 0;
  const auto tokenizer = Tokenizer::from_gguf(v);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("a a\n\n\na\n\n"), (std::vector<int32_t>{1, 5, 3, 1, 2, 2}));
  EXPECT_EQ((*tokenizer)->encode("??"), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace drafthorse

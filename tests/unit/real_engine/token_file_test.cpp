// Files of token ids: every format gives the same samples, and what is torn or wrong is refused in
// words.
#include "real/engine/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>

#include "real/engine/data/token_facts.hpp"
#include "real/engine/data/token_ids.hpp"
#include "real/engine/data/tokens.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace real::test {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

// Integers as a file has them, least significant byte first; `big`: last.
std::string number(std::uint64_t value, int bytes, bool big = false) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> (8 * (big ? bytes - 1 - i : i)) & 255);
  return text;
}

std::string numbers(const Ids& ids, int bytes, bool big = false) {
  std::string text;
  for (const std::int32_t id : ids)
    text += number(static_cast<std::uint64_t>(id), bytes, big);
  return text;
}

// The header as TOKENS.md has it.
struct Header {
  std::string magic = "STEPCTOK";
  std::uint32_t version = 1, bits = 16;
  std::uint64_t count = 0;
  std::uint32_t vocabulary = 50257, largest = 50256;
  std::string rest = std::string(32, '\0');
  std::string text() const {
    return magic + number(version, 4) + number(bits, 4) + number(count, 8) + number(vocabulary, 4) +
           number(largest, 4) + rest;
  }
};

std::string token_file(const Ids& ids, std::uint32_t bits = 16) {
  const auto largest = static_cast<std::uint32_t>(*std::max_element(ids.begin(), ids.end()));
  return Header{.bits = bits, .count = ids.size(), .vocabulary = 200'000, .largest = largest}
             .text() +
         numbers(ids, static_cast<int>(bits) / 8);
}

std::string llm_c_file(const Ids& ids, bool wide = false, std::uint32_t more = 0) {
  std::string text = number(wide ? 20240801 : 20240520, 4) + number(wide ? 7 : 1, 4) +
                     number(ids.size() + more, 4);
  text.resize(1024);
  return text + numbers(ids, wide ? 4 : 2);
}

// Megatron-LM's index of sequences of these lengths.
std::string index_file(const std::vector<std::uint32_t>& lengths, int kind, int width) {
  std::string text = std::string{"MMIDIDX\0\0", 9} + number(1, 8) +
                     number(static_cast<std::uint64_t>(kind), 1) + number(lengths.size(), 8) +
                     number(lengths.size() + 1, 8);
  std::string places, ends;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    text += number(lengths[i], 4);
    places += number(at, 8);
    ends += number(i, 8);
    at += std::uint64_t{lengths[i]} * static_cast<std::uint64_t>(width);
  }
  return text + places + ends + number(lengths.size(), 8);
}

// Files of one test, removed behind it.
class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream{path(name), std::ios::binary} << bytes;
    return path(name);
  }

 private:
  fs::path path_ = sim::test::temporary_path("tokens");
};

sim::Model model_of(std::int64_t vocabulary) {
  sim::Model model;
  model.name = "tiny";
  model.vocabulary = vocabulary;
  return model;
}

// 300 ids, no two alike, none a byte.
Ids some_ids() {
  Ids ids;
  for (std::int32_t i = 0; i < 300; ++i)
    ids.push_back(300 + (i * 7919) % 50'000);
  return ids;
}

sim::Layout layout_of(int data, std::int64_t micro_batch) {
  sim::Layout layout;
  layout.data_parallel = data;
  layout.sequence_length = 7;
  layout.global_batch = 16;
  layout.micro_batch = micro_batch;
  return layout;
}

// The global batch of a step, rank by rank.
Ids batch_of(const Corpus& corpus, int data, std::int64_t micro_batch, std::int64_t step) {
  Ids all;
  for (int rank = 0; rank < data; ++rank) {
    const Ids own = tokens_of_rank(corpus, layout_of(data, micro_batch), 5, step, rank);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const sim::InputError& error) {
    return error.problems().front().what;
  }
  return "taken";
}

std::string refusal(const std::string& path) {
  return message_of([&] { find_tokens(path); });
}

TEST_CASE("what a token file holds is told for people and for programs") {
  const Folder folder;
  const std::string path = folder.write("a.tokens", token_file(some_ids()));
  const std::vector<TokenFact> facts = token_facts(path, true);
  // A header of 64 bytes, 300 ids of 16 bits: 664 bytes.
  const std::string csv = token_csv(facts);
  CHECK(csv.starts_with("fact,value,unit\nfile," + path + ",\nformat,Stepcast token file,\n"));
  CHECK(csv.find("\ntokens,300,\nbits,16,\nvocabulary,200000,\n") != std::string::npos);
  CHECK(csv.ends_with("\nsize,664,B\n"));
  const std::string table = token_table(facts);
  CHECK(table.find("vocabulary        200,000\n") != std::string::npos);
  CHECK(table.find("largest id found  ") != std::string::npos);
  CHECK(token_json(facts).find("\"bytes\": 664") != std::string::npos);
  CHECK(token_markdown(facts).find("| tokens | 300 |\n") != std::string::npos);
}

TEST_CASE("what a token file does not say is told as such") {
  const Folder folder;
  const std::string path = folder.write("a.txt", "abc");
  const std::vector<TokenFact> facts = token_facts(path, false);
  CHECK(token_table(facts).find("vocabulary        the file does not say\n") != std::string::npos);
  CHECK(token_json(facts).find("\"vocabulary\": null") != std::string::npos);
  CHECK(token_csv(facts).find("\nvocabulary,,\n") != std::string::npos);
  CHECK(vocabulary_of(find_tokens(path)) == 256);
  CHECK_FALSE(vocabulary_of(raw_tokens(folder.write("ids", "abcd"), 2)));
}

}  // namespace

TEST_CASE("every format of the same ids gives the same samples under every layout", "[tokens]") {
  const Folder folder;
  const Ids ids = some_ids();
  const std::string name =
      GENERATE("16.tokens", "32.tokens", "c16.bin", "c32.bin", "m.bin", "m.idx", "m32.idx");
  CAPTURE(name);
  folder.write("16.tokens", token_file(ids));
  folder.write("32.tokens", token_file(ids, 32));
  folder.write("c16.bin", llm_c_file(ids));
  folder.write("c32.bin", llm_c_file(ids, true));
  folder.write("m.bin", numbers(ids, 2));
  folder.write("m.idx", index_file({100, 1, 199}, 8, 2));
  folder.write("m32.bin", numbers(ids, 4));
  folder.write("m32.idx", index_file({100, 1, 199}, 4, 4));
  const Corpus reference{folder.path("16.tokens"), model_of(50'300), 7};
  const Corpus corpus{folder.path(name), model_of(50'300), 7};
  CHECK(corpus.size() == 300);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Ids batch = batch_of(reference, 1, 16, step);
    CHECK(batch_of(corpus, 1, 2, step) == batch);
    CHECK(batch_of(corpus, 4, 2, step) == batch);
    CHECK(batch_of(corpus, 16, 1, step) == batch);
    for (std::size_t at = 0; at < batch.size(); at += 8)
      CHECK(std::search(ids.begin(), ids.end(), batch.begin() + static_cast<std::ptrdiff_t>(at),
                        batch.begin() + static_cast<std::ptrdiff_t>(at) + 8) != ids.end());
  }
  CHECK(batch_of(corpus, 1, 16, 0) != batch_of(corpus, 1, 16, 1));
}

TEST_CASE("a text and its bytes as ids give the same samples", "[tokens]") {
  const Folder folder;
  std::string text;
  Ids bytes;
  for (int i = 0; i < 256; ++i) {
    text += static_cast<char>(255 - i);
    bytes.push_back(255 - i);
  }
  const Corpus as_text{folder.write("t.txt", text), model_of(256), 7};
  const Corpus as_ids{folder.write("t.tokens", token_file(bytes)), model_of(256), 7};
  CHECK(batch_of(as_text, 2, 4, 3) == batch_of(as_ids, 4, 2, 3));
}

TEST_CASE("headers that are torn or contradict themselves are refused", "[tokens]") {
  const Folder folder;
  const Ids ids{1, 2, 3, 4};
  const auto stepcast = [&](const Header& header, const std::string& data) {
    return refusal(folder.write("t.tokens", header.text() + data));
  };
  const std::string four = numbers(ids, 2);
  CHECK(stepcast({.count = 4}, four) == "taken");
  CHECK(refusal(folder.write("short.tokens", "STEPCTOK\1")) ==
        "truncated: the header of a token file has 64 bytes, this has 9");
  CHECK(stepcast({.version = 2, .count = 4}, four) == "a token file of version 2; allowed: 1");
  CHECK(stepcast({.version = 1 << 24, .count = 4}, four) ==
        "the header is big-endian; write it and the ids little-endian (NumPy: dtype '<u2', '<u4')");
  CHECK(stepcast({.bits = 8, .count = 4}, four) ==
        "the header says ids of 8 bits; allowed: 16, 32");
  CHECK(stepcast({.count = 5}, four) ==
        "truncated: the header says 5 ids of 16 bits; behind it are 8 bytes, which are 4");
  CHECK(stepcast({.bits = 32, .count = 4}, four) ==
        "truncated: the header says 4 ids of 32 bits; behind it are 8 bytes, which are 2");
  CHECK(stepcast({.count = 4}, four + "x") ==
        "longer than it says: the header says 4 ids of 16 bits; behind it are 9 bytes, which are 4 "
        "and a part of one");
  CHECK(stepcast({.count = ~std::uint64_t{0}}, four).starts_with("truncated: "));
  // 2^63 ids of 2 bytes are 2^64 bytes, a sum that overflows.
  CHECK(stepcast({.count = std::uint64_t{1} << 63}, "").starts_with("truncated: "));
  CHECK(stepcast({.count = 4, .vocabulary = 0}, four) ==
        "the header says a vocabulary of 0; allowed: 1 to 2147483647");
  CHECK(stepcast({.count = 4, .vocabulary = 100, .largest = 100}, four) ==
        "the header contradicts itself: 100 is the largest id, of 16 bits, in a vocabulary of 100");
  CHECK(stepcast({.count = 4, .vocabulary = 70'000, .largest = 65'536}, four)
            .starts_with("the header contradicts itself: 65536 is the largest id, of 16 bits"));
  CHECK(stepcast({.count = 4, .rest = std::string(31, '\0') + "x"}, four) ==
        "bytes 32 to 63 of the header are not 0, and version 1 has nothing there");

  CHECK(refusal(folder.write("c.bin", llm_c_file(ids, false, 3))).starts_with("truncated: "));
  CHECK(refusal(folder.write("c.bin", llm_c_file(ids).substr(0, 500))) ==
        "truncated: llm.c's header has 1024 bytes, this file has 500");
  std::string other = llm_c_file(ids);
  other[4] = 2;
  CHECK(refusal(folder.write("c.bin", other)) ==
        "llm.c's token file 20240520 of version 2; allowed: 1");
  CHECK(refusal(folder.write("c.bin", number(20240520, 4, true) + std::string(1020, '\0')))
            .starts_with("the header is big-endian"));
}

TEST_CASE("indexes of Megatron-LM that do not fit their ids are refused", "[tokens]") {
  const Folder folder;
  folder.write("m.bin", numbers({1, 2, 3, 4}, 2));
  const auto index = [&](const std::string& text) { return refusal(folder.write("m.idx", text)); };
  CHECK(index(index_file({2, 2}, 8, 2)) == "taken");
  CHECK(find_tokens(folder.path("m.bin")).format == DataFormat::megatron);
  CHECK(index(index_file({2, 3}, 8, 2)) ==
        "8 bytes; its index " + folder.path("m.idx") + " says 10");
  CHECK(index(index_file({}, 8, 2)) == "8 bytes; its index " + folder.path("m.idx") + " says 0");
  CHECK(index(index_file({2, 2}, 5, 8)) ==
        "the index says numbers of kind 5 (int64); allowed: 8 (uint16), 4 (int32)");
  CHECK(index(index_file({2, 2}, 99, 2)) ==
        "the index says numbers of kind 99; allowed: 8 (uint16), 4 (int32)");
  CHECK(index(index_file({2, 2}, 8, 2).substr(0, 60))
            .starts_with("truncated: the index says 2 sequences and 3 documents"));
  CHECK(index(index_file({2, 2}, 8, 2).substr(0, 20)) == "truncated: the index has no header");
  std::string negative = index_file({2, 2}, 8, 2);
  negative.replace(34 + 4, 4, "\xff\xff\xff\xff");
  CHECK(index(negative).ends_with("says what no file can have"));
  folder.write("alone.idx", index_file({2}, 8, 2));
  CHECK(refusal(folder.path("alone.idx")) == "cannot read this file: No such file or directory");
}

TEST_CASE("files that would only look like text are refused by what they are", "[tokens]") {
  const Folder folder;
  CHECK(refusal(folder.write("t.gz", "\x1f\x8b\x08")) ==
        "this file is compressed (gzip); unpack it first: real/engine/TOKENS.md says how to make "
        "one");
  CHECK(
      refusal(folder.write("t.npy", "\x93NUMPY\x01")).starts_with("this file is a NumPy array; "));
  CHECK(refusal(folder.write("t.parquet", "PAR1")).starts_with("this file is a Parquet file; "));
  CHECK(refusal(folder.write("train.bin", "abcd"))
            .starts_with("ids of unknown width: no header of Stepcast or llm.c, and no index"));
  CHECK(refusal(folder.write("t.txt", "abcd")) == "taken");
  CHECK(refusal(folder.write("empty.txt", "")) == "taken");
}

TEST_CASE("ids that are none of the model's are refused, at the start or as they are drawn",
          "[tokens]") {
  const Folder folder;
  const auto open = [&](const std::string& bytes, std::int64_t vocabulary, std::int64_t length) {
    const std::string path = folder.write("t.tokens", bytes);
    return message_of([&] {
      const Corpus corpus{path, model_of(vocabulary), length};
      Ids to(static_cast<std::size_t>(length + 1));
      corpus.sample(1, 0, 0, to.data());
    });
  };
  const Ids ids{5, 9, 70'000, 3};
  CHECK(open(token_file(ids, 32), 70'001, 3) == "taken");
  CHECK(open(token_file(ids, 32), 70'000, 3) ==
        "the largest id is 70000, and the vocabulary of tiny has 70000: take the tokenizer of that "
        "model, or set the model's vocabulary to 70001 or more");
  CHECK(open(token_file(ids, 32), 70'001, 4) ==
        "4 tokens; a sample takes 5 (sequence_length 4 and the token behind it)");
  // A header that says less than is there, as one with ids of another byte order.
  const Header header{.count = 4, .vocabulary = 256, .largest = 9};
  CHECK(open(header.text() + numbers({1, 9, 2, 3}, 2, true), 50'000, 3) ==
        "id 0 is 256, and the header says that 9 is the largest: a wrong header, or ids of another "
        "byte order or width");
  CHECK(open(llm_c_file(ids, true), 256, 3) ==
        "id 2 is 70000, which is no token: the vocabulary of tiny has 256; `stepcast tokens show "
        "--check` reads all ids");
  // Beyond 2^31 no id is negative.
  CHECK(open(llm_c_file({1, -2, 3, 4}, true), 256, 3).starts_with("id 1 is 4294967294, "));
}

TEST_CASE("a file that is cut while it is trained on is an error", "[tokens]") {
  const Folder folder;
  const std::string path = folder.write("t.tokens", token_file(some_ids()));
  const Corpus corpus{path, model_of(60'000), 299};
  fs::resize_file(path, 64 + 100);
  Ids to(300);
  CHECK(message_of([&] { corpus.sample(1, 0, 0, to.data()); }) ==
        "ends at byte 164; it had 664 when it was opened");
}

TEST_CASE("what is converted has the ids of what it was made from", "[tokens]") {
  const Folder folder;
  const Ids ids = some_ids();
  const auto same = [&](const TokenFile& a, const TokenFile& b) {
    const auto all = [](const TokenFile& tokens) {
      std::vector<std::uint32_t> read(static_cast<std::size_t>(tokens.count));
      read_ids(InputFile{tokens.data}, tokens, 0, read);
      return read;
    };
    return all(a) == all(b);
  };
  const std::int64_t vocabulary = GENERATE(65'536, 65'537);
  const TokenFile raw = raw_tokens(folder.write("train.bin", numbers(ids, 2)), 2);
  const WrittenTokens made = write_tokens(raw, vocabulary, folder.path("made.tokens"));
  CHECK(made.tokens.width == (vocabulary == 65'536 ? 2 : 4));
  const TokenFile found = find_tokens(folder.path("made.tokens"));
  CHECK(found.vocabulary == vocabulary);
  CHECK(found.largest == *std::max_element(ids.begin(), ids.end()));
  CHECK(same(found, raw));
  CHECK(same(write_tokens(found, 60'000, folder.path("again.tokens")).tokens, raw));
  CHECK(largest_of(raw) == *found.largest);

  CHECK(message_of([&] {
          write_tokens(raw, 1000, folder.path("none.tokens"));
        }).starts_with("the largest id is "));
  CHECK(!fs::exists(folder.path("none.tokens")));
  CHECK(message_of([&] { write_tokens(raw, 60'000, folder.path("train.bin")); }) ==
        "this is the file to convert; write the new one under another name");
  CHECK(message_of([&] { raw_tokens(folder.write("odd", "abc"), 2); }) ==
        "3 bytes are no whole number of ids of 16 bits");
  const Header wrong{.count = 2, .vocabulary = 9, .largest = 3};
  const TokenFile lies = find_tokens(folder.write("w", wrong.text() + numbers({3, 4}, 2)));
  CHECK(
      message_of([&] { largest_of(lies); }).starts_with("id 1 is 4, and the header says that 3 "));
}

}  // namespace real::test

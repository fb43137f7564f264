// Sentences with labels: the tokenizer, the rows of a step, and what is refused at which line.
#include "real/engine/data/labelled_text.hpp"

#include <algorithm>
#include <set>

#include "real/engine/operator_facts.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/property/support.hpp"

namespace real::test {
namespace {

using Row = std::vector<std::int32_t>;
using Words = std::vector<std::string>;

sim::Model classifier(std::int64_t vocabulary) {
  sim::TransformerShape shape;
  shape.name = "tiny";
  shape.layers = 1;
  shape.hidden = shape.head_dim = shape.feed_forward = 8;
  shape.heads = shape.kv_heads = 1;
  shape.vocabulary = vocabulary;
  shape.max_sequence = 8;
  shape.mask = sim::AttentionMask::bidirectional;
  shape.head = sim::Head::classifier;
  shape.classes = 2;
  return sim::build_transformer(shape);
}

Row row_of(const Samples& samples, std::int64_t step, std::int64_t sample) {
  Row row(7, -1);
  samples.sample(3, step, sample, row.data());
  return row;
}

// The problems as "line:column: what".
Words refusals(const std::string& text, std::int64_t vocabulary = 100) {
  const sim::test::TemporaryFile file{text, ".tsv"};
  Words refused;
  try {
    const LabelledText samples{file.path(), classifier(vocabulary), 6};
  } catch (const sim::InputError& error) {
    for (const sim::Problem& problem : error.problems())
      refused.push_back(std::to_string(problem.where.line) + ':' +
                        std::to_string(problem.where.column) + ": " + problem.what);
  }
  return refused;
}

}  // namespace

TEST_CASE("a token is a word in lower case, or another character", "[labelled_text]") {
  CHECK(words_of_sentence("It's GOOD, isn't it?") ==
        Words{"it's", "good", ",", "isn't", "it", "?"});
  CHECK(words_of_sentence("  a--b \t7up\r") == Words{"a", "-", "-", "b", "7up"});
  CHECK(words_of_sentence("Caf\xc3\xa9!") == Words{"caf\xc3\xa9", "!"});
  CHECK(words_of_sentence("").empty());
}

TEST_CASE("a row is a sentence, padding and the number of its label", "[labelled_text]") {
  const sim::test::TemporaryFile file{"# a comment\nbad\tThe soup.\r\n\ngood\tsoup soup the END\n",
                                      ".tsv"};
  const LabelledText samples{file.path(), classifier(100), 6};
  CHECK(samples.size() == 2);
  CHECK(samples.labels() == Words{"bad", "good"});
  CHECK(samples.ids() == 6);  // padding, the beginning, the, soup, ., end
  std::set<Row> rows;
  for (std::int64_t sample = 0; sample < 20; ++sample)
    rows.insert(row_of(samples, 0, sample));
  CHECK(rows == std::set<Row>{{1, 2, 3, 4, 0, 0, 0}, {1, 3, 3, 2, 5, 0, 1}});
  CHECK(reads_labels(classifier(100)));
}

TEST_CASE("every layout sees the same sentences in a step", "[labelled_text]") {
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += (i % 2 == 0 ? "good\tw" : "bad\tw") + std::to_string(i) + "\n";
  const sim::test::TemporaryFile file{text, ".tsv"};
  const LabelledText samples{file.path(), classifier(100), 6};
  const auto all_of = [&](int data, std::int64_t micro_batch) {
    sim::Layout layout;
    layout.data_parallel = data;
    layout.sequence_length = 6;
    layout.global_batch = 8;
    layout.micro_batch = micro_batch;
    Row all;
    for (int rank = 0; rank < data; ++rank) {
      const Row own = tokens_of_rank(samples, layout, 3, 7, rank);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  const Row reference = all_of(1, 8);
  CHECK(reference.size() == 56);
  CHECK(all_of(2, 4) == reference);
  CHECK(all_of(4, 1) == reference);
  CHECK(row_of(samples, 7, 0) == Row(reference.begin(), reference.begin() + 7));
  CHECK(row_of(samples, 8, 0) != row_of(samples, 7, 0));
}

TEST_CASE("what is no labelled sentence is refused at its line", "[labelled_text]") {
  CHECK(refusals("good\tfine\n").empty());
  CHECK(refusals("good fine\n\tfine\n") ==
        Words{"1:1: no label; a line is a label, a tab and a sentence",
              "2:1: no label; a line is a label, a tab and a sentence"});
  CHECK(refusals("good\t  \n") == Words{"1:5: no sentence behind the label"});
  CHECK(refusals("good\ta b c d e f\n") ==
        Words{"1:6: 6 words; allowed: 5 (layout.sequence_length 6, of which one token begins the "
              "sentence)"});
  CHECK(refusals("good\ta\nbad\tb\n\nugly\tc\n") ==
        Words{"4:1: \"ugly\" is label number 3 of this file; tiny has 2 classes"});
  CHECK(refusals("good\ta b\nbad\tb c\n", 4) ==
        Words{"2:5: with its words the tokenizer has 5 ids; the vocabulary of tiny has 4"});
  CHECK(refusals("# nothing\n") ==
        Words{"0:0: no sentences; a line is a label, a tab and a sentence, such as "
              "\"positive<tab>A good day.\""});
  CHECK_THROWS_AS((LabelledText{"/nowhere.tsv", classifier(9), 6}), sim::InputError);
}

TEST_CASE("a classifier opens sentences, another model a text", "[labelled_text]") {
  const sim::test::TemporaryFile file{"good\tfine weather today\n", ".tsv"};
  const sim::Model model = classifier(256);
  CHECK(dynamic_cast<LabelledText*>(open_samples(file.path(), model, 6).get()) != nullptr);
  sim::Model words = model;
  words.output.ops.clear();
  CHECK(dynamic_cast<Corpus*>(open_samples(file.path(), words, 6).get()) != nullptr);
}

}  // namespace real::test

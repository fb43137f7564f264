// Sentences with a label each, from a text file: what a classifier is trained on.
//
// A line is a label, a tab and a sentence; empty lines and lines that begin with # are left out.
// Labels are words, numbered in the order in which they first appear. The tokenizer is made from
// the file: a token is a run of letters, digits and apostrophes, in lower case (bytes of UTF-8
// beyond ASCII are letters, as they are), or one other character. Id 0 is padding, 1 begins every
// sentence, and words follow from 2 in the order in which they first appear.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "real/engine/data/tokens.hpp"
#include "sim/base/input_error.hpp"

namespace real {

// The tokens of a sentence, as text.
std::vector<std::string> words_of_sentence(std::string_view sentence);

class LabelledText : public Samples {
 public:
  // Throws InputError, with the lines, for a file that cannot be read or is empty, a line without
  // label, tab or sentence, more labels than the model has classes, a sentence that is longer than
  // sequence_length, and more words than the model's vocabulary has.
  LabelledText(const std::string& path, const sim::Model& model, std::int64_t sequence_length);

  const std::string& path() const { return path_; }
  std::int64_t size() const { return std::ssize(sentences_); }  // sentences
  std::int64_t ids() const { return next_id_; }                 // of the tokenizer
  const std::vector<std::string>& labels() const { return labels_; }

  // A sentence drawn from (seed, step, sample), with replacement: its ids, padding up to
  // sequence_length, and behind them the number of its label.
  void sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
              std::int32_t* to) const override;

 private:
  struct Sentence {
    std::int32_t label = 0;
    std::vector<std::int32_t> ids;
  };
  struct Limits {
    std::string model;
    std::int64_t classes = 0, vocabulary = 0;
  };
  void read_line(const Limits& limits, int number, const std::string& line,
                 std::vector<sim::Problem>& problems);
  std::int32_t label_of(const std::string& label);
  std::int32_t id_of(const std::string& word);

  std::string path_;
  std::int64_t sequence_length_ = 0;
  std::vector<Sentence> sentences_;
  std::vector<std::string> labels_;
  std::map<std::string, std::int32_t> words_;
  std::int32_t next_id_ = 2;
};

// The samples that the model is trained on, from a file: sentences with labels for a classifier,
// else a text or token ids. Throws InputError as LabelledText and Corpus do.
std::unique_ptr<Samples> open_samples(const std::string& path, const sim::Model& model,
                                      std::int64_t sequence_length);

}  // namespace real

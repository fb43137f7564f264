#include "real/engine/data/labelled_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::int32_t first_id = 1;  // of every sentence: its class is made of it
constexpr std::size_t most_problems = 20;

bool is_of_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '\'' ||
         byte >= 0x80;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::int64_t classes_of(const sim::Model& model) {
  for (const sim::ModelOp& op : model.output.ops)
    if (op.function == sim::Function::cross_entropy) return op.in_features;
  return 0;
}

}  // namespace

std::vector<std::string> words_of_sentence(std::string_view sentence) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : sentence) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    const bool of_word = is_of_word(c);
    if (!space) {
      if (!inside || !of_word) words.emplace_back();
      words.back() += lower(c);
    }
    inside = of_word;
  }
  return words;
}

LabelledText::LabelledText(const std::string& path, const sim::Model& model,
                           std::int64_t sequence_length)
    : path_{path}, sequence_length_{sequence_length} {
  SIM_CHECK(reads_labels(model), model.name);
  std::ifstream file{path};
  if (!file)
    throw sim::InputError{sim::SourcePosition{path, 0, 0}, "cannot read this file of sentences"};
  std::vector<sim::Problem> problems;
  std::string line;
  for (int number = 1; std::getline(file, line) && problems.size() < most_problems; ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    read_line({model.name, classes_of(model), model.vocabulary}, number, line, problems);
  }
  if (!problems.empty()) throw sim::InputError{std::move(problems)};
  if (sentences_.empty())
    throw sim::InputError{sim::SourcePosition{path, 0, 0},
                          "no sentences; a line is a label, a tab and a sentence, such as "
                          "\"positive<tab>A good day.\""};
}

void LabelledText::read_line(const Limits& limits, int number, const std::string& line,
                             std::vector<sim::Problem>& problems) {
  const auto refuse = [&](std::size_t column, std::string what) {
    problems.push_back({{path_, number, static_cast<int>(column) + 1}, std::move(what), line});
  };
  const std::size_t tab = line.find('\t');
  if (tab == std::string::npos || tab == 0)
    return refuse(0, "no label; a line is a label, a tab and a sentence");
  const std::vector<std::string> words = words_of_sentence(std::string_view{line}.substr(tab + 1));
  if (words.empty()) return refuse(tab, "no sentence behind the label");
  const std::int64_t room = sequence_length_ - 1;
  if (std::ssize(words) > room)
    return refuse(tab + 1, fmt::format("{} words; allowed: {} (layout.sequence_length {}, of which "
                                       "one token begins the sentence)",
                                       words.size(), room, sequence_length_));
  const std::string label = line.substr(0, tab);
  Sentence sentence{.label = label_of(label), .ids = {first_id}};
  if (sentence.label >= limits.classes)
    return refuse(0, fmt::format("\"{}\" is label number {} of this file; {} has {} classes", label,
                                 sentence.label + 1, limits.model, limits.classes));
  for (const std::string& word : words)
    sentence.ids.push_back(id_of(word));
  if (next_id_ > limits.vocabulary)
    return refuse(tab + 1, fmt::format("with its words the tokenizer has {} ids; the vocabulary of "
                                       "{} has {}",
                                       next_id_, limits.model, limits.vocabulary));
  sentences_.push_back(std::move(sentence));
}

std::int32_t LabelledText::label_of(const std::string& label) {
  const auto found = std::find(labels_.begin(), labels_.end(), label);
  const auto number = static_cast<std::int32_t>(found - labels_.begin());
  if (found == labels_.end()) labels_.push_back(label);
  return number;
}

std::int32_t LabelledText::id_of(const std::string& word) {
  const auto [place, is_new] = words_.try_emplace(word, next_id_);
  if (is_new) ++next_id_;
  return place->second;
}

void LabelledText::sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                          std::int32_t* to) const {
  const std::uint64_t drawn = draw_of_sample(seed, step, sample);
  const Sentence& sentence = sentences_[drawn % sentences_.size()];
  std::fill_n(to, sequence_length_, padding_id);
  std::copy(sentence.ids.begin(), sentence.ids.end(), to);
  to[sequence_length_] = sentence.label;
}

std::unique_ptr<Samples> open_samples(const std::string& path, const sim::Model& model,
                                      std::int64_t sequence_length) {
  if (reads_labels(model)) return std::make_unique<LabelledText>(path, model, sequence_length);
  return std::make_unique<Corpus>(path, model, sequence_length);
}

}  // namespace real

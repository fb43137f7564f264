#include "sim/interop/megatron/megatron_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/model/transformer.hpp"

namespace sim {
namespace {

// ---- In.

// list: term {"+" term}; term: ("[" [digit {"," digit}] "]" | "(" list ")") {"*" number}
class ListParser {
 public:
  explicit ListParser(std::string_view text) {
    for (const char c : text)
      if (c != ' ') text_ += c;
    if (text_.size() > longest) problem_ = fmt::format("has more than {} characters", longest);
  }

  ExpertLayers parse() {
    ExpertLayers result;
    if (problem_.empty()) result.pattern = list(0);
    if (problem_.empty() && at_ < text_.size()) fail();
    result.problem = problem_;
    return result;
  }

 private:
  using Pattern = std::vector<bool>;
  static constexpr int deepest = 32;
  static constexpr std::size_t longest = 32'768;

  bool at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool at_digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
  bool take(char c) {
    if (!problem_.empty() || !at(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  void fail() {
    if (!problem_.empty()) return;
    const std::string found =
        at_ < text_.size() ? fmt::format("has '{}' at {}", text_[at_], at_ + 1) : "ends too early";
    problem_ = found + "; known: a number, or lists of 0 and 1, as ([0]*3+[1]*58)";
  }
  void fail_if_long(std::size_t layers) {
    if (layers > static_cast<std::size_t>(transformer_limits::layers) && problem_.empty())
      problem_ = fmt::format("describes more than {} layers", transformer_limits::layers);
  }

  Pattern list(int depth) {
    Pattern all = term(depth);
    while (take('+')) {
      const Pattern more = term(depth);
      fail_if_long(all.size() + more.size());
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  Pattern term(int depth) {
    Pattern part;
    if (depth < deepest && take('(')) {
      part = list(depth + 1);
      expect(')');
    } else {
      part = brackets();
    }
    while (take('*')) {
      const std::size_t times = number();
      fail_if_long(part.size() * times);
      if (!problem_.empty()) return part;
      Pattern repeated;
      for (std::size_t i = 0; i < times && !part.empty(); ++i)
        repeated.insert(repeated.end(), part.begin(), part.end());
      part = std::move(repeated);
    }
    return part;
  }

  Pattern brackets() {
    Pattern part;
    expect('[');
    if (take(']')) return part;
    do {
      if (at('0') || at('1'))
        part.push_back(text_[at_++] == '1');
      else
        fail();
    } while (take(','));
    expect(']');
    return part;
  }

  // Numbers beyond the limit of layers become that limit and one more.
  std::size_t number() {
    if (!at_digit()) fail();
    std::size_t value = 0;
    for (; at_digit(); ++at_)
      value = std::min<std::size_t>(transformer_limits::layers + 1,
                                    value * 10 + static_cast<std::size_t>(text_[at_] - '0'));
    return value;
  }

  std::string text_;
  std::size_t at_ = 0;
  std::string problem_;
};

ExpertLayers some_of_every(std::string_view number, std::int64_t layers, OfEvery taken) {
  ExpertLayers result;
  std::int64_t every = 0;
  for (const char digit : number)
    every = std::min<std::int64_t>(transformer_limits::layers + 1, every * 10 + (digit - '0'));
  if (every < 1 || every > transformer_limits::layers) {
    result.problem = fmt::format("is {}; allowed: 1 to {}", number, transformer_limits::layers);
    return result;
  }
  for (std::int64_t layer = 0; layer < layers; ++layer)
    result.pattern.push_back(taken == OfEvery::first ? layer % every == 0
                                                     : (layer + 1) % every != 0);
  return result;
}

// ---- Out.

std::string repeated(std::string_view list, std::int64_t times) {
  return times == 1 ? std::string{list} : fmt::format("{}*{}", list, times);
}

// ---- What is not modelled.

std::string flag_of(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

}  // namespace

ExpertLayers parse_expert_layers(std::string_view text, std::int64_t layers, OfEvery taken) {
  const bool number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (number) return some_of_every(text, layers, taken);
  ExpertLayers result = ListParser{text}.parse();
  if (result.problem.empty() && static_cast<std::int64_t>(result.pattern.size()) != layers)
    result.problem =
        fmt::format("describes {} layers; the model has {}", result.pattern.size(), layers);
  return result;
}

std::string expert_layers_text(const Experts& experts, std::int64_t layers) {
  if (experts.first_layer == 0) return fmt::format("{}", experts.every);
  const auto group = [](std::int64_t length) {
    return length == 1 ? std::string{"[1]"} : fmt::format("[1]+{}", repeated("[0]", length - 1));
  };
  std::string text = fmt::format("({}", repeated("[0]", experts.first_layer));
  const std::int64_t rest = layers - experts.first_layer;
  const std::int64_t whole = rest / experts.every, left = rest % experts.every;
  if (experts.every == 1)
    text += fmt::format("+{}", repeated("[1]", rest));
  else if (whole > 0)
    text += fmt::format("+{}", repeated(fmt::format("({})", group(experts.every)), whole));
  if (left > 0) text += fmt::format("+{}", group(left));
  return text + ")";
}

std::string expert_layers_list(const Experts& experts, std::int64_t layers) {
  if (experts.first_layer == 0) return fmt::format("{}", experts.every);
  std::string text = "[0";
  for (std::int64_t layer = 1; layer < layers; ++layer)
    text += experts.in_layer(layer) ? ", 1" : ", 0";
  return text + "]";
}

std::string layer_list_text(std::int64_t layers, const std::function<bool(std::int64_t)>& has) {
  std::string text;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    text += fmt::format("{}{}", layer == 0 ? "" : ",", has(layer) ? 1 : 0);
  return fmt::format("[{}]", text);
}

void judge_expert_keys(const ObjectReader& from, KeySpelling spelling, std::string_view prefix,
                       Imported& result) {
  const std::span<const KnownKey> known = known_keys("megatron", "experts");
  std::vector<KnownKey> keys{known.begin(), known.end()};
  if (spelling == KeySpelling::flag)
    for (KnownKey& key : keys)
      key.name = flag_of(key.name);
  judge_keys(from, keys, prefix, result);
}

}  // namespace sim

#include "sim/scenario/layered.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {
namespace {

// Nested "a.b.c = value" assignments; siblings in the order of the command line.
struct Assignment {
  std::string key;
  std::string value;                 // of a leaf
  std::vector<Assignment> children;  // of a section
};

constexpr std::string_view key_characters = "abcdefghijklmnopqrstuvwxyz0123456789_";

[[noreturn]] void refuse(const std::string& option, const std::string& why) {
  throw InputError{SourcePosition{"--set", 0, 0}, fmt::format("--set {}: {}", option, why)};
}

void insert(std::vector<Assignment>& siblings, const std::string& option, std::string_view key,
            std::string_view value) {
  const std::size_t dot = key.find('.');
  const std::string_view head = key.substr(0, dot);
  if (head.empty() || head.find_first_not_of(key_characters) != std::string_view::npos)
    refuse(option, "write it as section.key=value, for example layout.tensor_parallel=4");
  auto place = std::find_if(siblings.begin(), siblings.end(),
                            [&](const Assignment& item) { return item.key == head; });
  const bool found = place != siblings.end();
  if (!found) place = siblings.insert(siblings.end(), Assignment{std::string{head}, {}, {}});
  if (dot == std::string_view::npos) {
    if (found) refuse(option, "this key is set twice");
    place->value = value;
    return;
  }
  if (!place->value.empty()) refuse(option, "this section is set as a whole, too");
  insert(place->children, option, key.substr(dot + 1), value);
}

void emit(const std::vector<Assignment>& siblings, std::size_t indent, std::string& out) {
  for (const Assignment& item : siblings) {
    out += fmt::format("{:{}}{}:{}{}\n", "", indent, item.key, item.value.empty() ? "" : " ",
                       item.value);
    emit(item.children, indent + 2, out);
  }
}

}  // namespace

namespace {

// Throws InputError where it is no assignment.
void add_assignment(std::vector<Assignment>& root, const std::string& option) {
  constexpr std::size_t deepest = 6;  // cluster.change.node.nics.bandwidth is the deepest
  const std::size_t equals = option.find('=');
  if (equals == std::string::npos || equals + 1 == option.size())
    refuse(option, "write it as section.key=value, for example layout.tensor_parallel=4");
  // A line break would smuggle further keys in, a comment would cut the value off.
  if (option.find_first_of("\n\r#") != std::string::npos)
    refuse(option, "a value has no line breaks and no '#'");
  const std::string_view key = std::string_view{option}.substr(0, equals);
  if (static_cast<std::size_t>(std::count(key.begin(), key.end(), '.')) >= deepest)
    refuse(option, "no key lies that deep");
  insert(root, option, key, std::string_view{option}.substr(equals + 1));
}

}  // namespace

Document overrides_document(const std::vector<std::string>& overrides,
                            std::vector<Problem>& problems) {
  std::vector<Assignment> root;
  for (const std::string& option : overrides) {
    try {
      add_assignment(root, option);
    } catch (const InputError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (root.empty()) return Document::parse_yaml("{}", "--set");
  std::string yaml;
  emit(root, 0, yaml);
  return Document::parse_yaml(yaml, "--set");
}

const ObjectReader* Layered::holder(std::string_view key) const {
  const bool in_lower = lower_ && lower_->has(key);
  if (upper_ && upper_->has(key)) return &*upper_;
  return in_lower ? &*lower_ : nullptr;
}

const ObjectReader* Layered::scalar_holder(std::string_view key) const {
  const ObjectReader* found = nullptr;
  for (const std::optional<ObjectReader>* layer : {&lower_, &upper_})
    if (*layer && (*layer)->has(key) && (*layer)->at(key).is_scalar()) found = &**layer;
  return found;
}

std::optional<std::string> Layered::text_of_file(std::string_view key) const {
  const std::optional<ValueReader> value = lower_ ? lower_->find(key) : std::nullopt;
  return value ? value->peek_text() : std::nullopt;
}

Layered Layered::object(std::string_view key) const {
  const auto part = [&](const std::optional<ObjectReader>& layer) -> std::optional<ObjectReader> {
    if (!layer) return std::nullopt;
    const std::optional<ValueReader> value = layer->find(key);
    if (!value || value->is_scalar()) return std::nullopt;
    return value->object();
  };
  const std::optional<ObjectReader> lower = part(lower_);
  return Layered{lower, part(upper_), lower ? *lower : blame_};
}

Layered Layered::section(std::string_view key) const {
  for (const std::optional<ObjectReader>* layer : {&lower_, &upper_}) {
    const std::optional<ValueReader> value = *layer ? (*layer)->find(key) : std::nullopt;
    if (value && value->is_scalar())
      value->problem(fmt::format("{} is a section, not one value{}; its keys: stepcast keys {}.",
                                 key, key == "framework" ? ": its name is framework.name" : "",
                                 key));
  }
  return object(key);
}

void Layered::require(std::string_view key) const {
  if (!empty() && !has(key)) static_cast<void>((lower_ ? *lower_ : *upper_).at(key));
}

void Layered::problem(std::string_view key, const std::string& what) const {
  const ObjectReader* reader = holder(key);
  if (!reader && lower_) reader = &*lower_;
  if (reader)
    reader->problem(key, what);
  else
    blame_.problem(what);
}

std::string Layered::text_or(std::string_view key, std::string_view fallback) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->text(key) : std::string{fallback};
}
std::int64_t Layered::integer_or(std::string_view key, std::int64_t fallback,
                                 IntegerRange range) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->integer(key, range) : fallback;
}
double Layered::real_or(std::string_view key, double fallback, RealRange range) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->real(key, range) : fallback;
}
bool Layered::boolean_or(std::string_view key, bool fallback) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->boolean(key) : fallback;
}
Duration Layered::duration_or(std::string_view key, Duration fallback) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->duration(key) : fallback;
}
Bandwidth Layered::bandwidth_or(std::string_view key, Bandwidth fallback) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->bandwidth(key) : fallback;
}
Bytes Layered::bytes_or(std::string_view key, Bytes fallback) const {
  const ObjectReader* reader = holder(key);
  return reader ? reader->bytes(key) : fallback;
}

}  // namespace sim

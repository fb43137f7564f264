#include "sim/scripts/python/python_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/config/tree.hpp"
#include "sim/scripts/python/python_interpreter.hpp"

namespace sim {
namespace {

using python::Container;
using python::Told;
using python::Value;

constexpr int deepest = 40;
constexpr std::size_t most_values = 50'000;
constexpr std::size_t most_unknown = 200;

// Writes the configuration as a tree.
class TreeWriter {
 public:
  explicit TreeWriter(Tree& tree) : tree_{tree} {}

  void write(const Value& made, const python::Interpreter& from) {
    tree_.open(made.place, ValueKind::object);
    tree_.add_key(made.place, "_base");
    tree_.add_scalar(made.place, ValueKind::quoted, made.text);
    entries(made, 0, "");
    not_known(made.place);
    told("_calls", from.calls(), made.place);
    told("_unread", from.unread(), made.place);
    tree_.close();
  }

 private:
  void told(const char* key, const std::vector<Told>& all, TextPlace place) {
    if (all.empty()) return;
    tree_.add_key(place, key);
    tree_.open(place, ValueKind::list);
    for (const Told& one : all)
      tree_.add_scalar(one.place, ValueKind::quoted, one.text);
    tree_.close();
  }

  void not_known(TextPlace place) {
    if (not_known_.empty()) return;
    tree_.add_key(place, "_unknown");
    tree_.open(place, ValueKind::object);
    std::size_t at = 0;
    for (const Told& one : not_known_) {
      tree_.add_key(one.place, one.text);
      tree_.add_scalar(one.place, ValueKind::quoted, lines_[at++]);
    }
    tree_.close();
  }

  // The part of a value that is not known, in lists and tuples, too; null: all is known.
  const Value* unknown_in(const Value& value, int depth = 0) {
    // A value may hold another one more than once.
    if (++looked_at_ > 4 * most_values) throw python::TooMuch{};
    if (value.is(Value::Kind::unknown)) return &value;
    if (!value.is(Value::Kind::list) || depth > deepest) return nullptr;
    for (const Container::Entry& entry : value.items->entries)
      if (const Value* found = unknown_in(entry.value, depth + 1)) return found;
    return nullptr;
  }

  void entries(const Value& value, int depth, const std::string& path) {
    for (const Container::Entry& entry : value.items->entries) {
      const bool dict = value.is(Value::Kind::dict);
      const std::string& key =
          dict && entry.key_value.is(Value::Kind::text) ? entry.key_value.text : entry.key;
      // Keys in which the evaluation reports on the configuration are not its own.
      const bool ours = depth == 0 && (key == "_base" || key == "_calls" || key == "_unread" ||
                                       key == "_unknown");
      if (ours || key == "_target_") continue;
      const std::string own = path.empty() ? key : path + "." + key;
      if (const Value* unknown = unknown_in(entry.value)) {
        if (not_known_.size() < most_unknown) {
          not_known_.push_back({entry.place, own});
          lines_.push_back(unknown->text);
        }
        continue;
      }
      tree_.add_key(entry.place, key);
      node(entry.value, depth + 1, own);
    }
  }

  void node(const Value& value, int depth, const std::string& path) {
    if (++values_ > most_values || depth > deepest) throw python::TooMuch{};
    using Kind = Value::Kind;
    const TextPlace place = value.place;
    switch (value.kind) {
      case Kind::unknown:
      case Kind::none:
        return void(tree_.add_scalar(place, ValueKind::null, "null"));
      case Kind::boolean:
        return void(tree_.add_scalar(place, ValueKind::plain, value.whole != 0 ? "true" : "false"));
      case Kind::whole:
        return void(tree_.add_scalar(place, ValueKind::plain, fmt::format("{}", value.whole)));
      case Kind::real:
        return void(tree_.add_scalar(place, ValueKind::plain, fmt::format("{}", value.real)));
      case Kind::function:
        return void(tree_.add_scalar(place, ValueKind::quoted, value.function->name));
      case Kind::text:
      case Kind::symbol:
        return void(tree_.add_scalar(place, ValueKind::quoted, value.text));
      case Kind::list:
        tree_.open(place, ValueKind::list);
        for (const Container::Entry& entry : value.items->entries)
          node(entry.value, depth + 1, path);
        return tree_.close();
      case Kind::dict:
      case Kind::object:
        tree_.open(place, ValueKind::object);
        if (value.is(Kind::object) && !value.text.empty()) {
          tree_.add_key(place, "_target_");
          tree_.add_scalar(place, ValueKind::quoted, value.text);
        }
        entries(value, depth, path);
        return tree_.close();
    }
  }

  Tree& tree_;
  std::size_t values_ = 0, looked_at_ = 0;
  std::vector<Told> not_known_;     // paths of what is not known,
  std::vector<std::string> lines_;  // and what decides each
};

bool begins_configuration(const std::vector<python::Statement>& body) {
  using python::Expression;
  return std::ranges::any_of(body, [](const python::Statement& one) {
    return one.kind == python::Statement::Kind::assign &&
           one.expressions.front().kind == Expression::Kind::name &&
           one.expressions.front().text == "cfg" &&
           one.expressions.back().kind == Expression::Kind::call;
  });
}

}  // namespace

std::vector<std::string> python_configurations(std::string_view text) {
  std::vector<std::string> names;
  for (const python::Statement& statement : python::parse_module(text))
    if (statement.kind == python::Statement::Kind::function && !statement.name.starts_with('_') &&
        begins_configuration(statement.body) &&
        std::ranges::find(names, statement.name) == names.end())
      names.push_back(statement.name);
  return names;
}

EvaluatedPython::EvaluatedPython(std::string_view text, std::string name,
                                 const std::string& function, const PythonRules& rules)
    : tree_{std::make_unique<Tree>(text, std::move(name))} {
  try {
    python::Interpreter interpreter{rules, tree_->source(), tree_->name()};
    const Value made = interpreter.configuration(function);
    TreeWriter{*tree_}.write(made, interpreter);
  } catch (const python::Stopped& stopped) {
    tree_->fail(stopped.place, stopped.what);
  } catch (const python::TooMuch&) {
    tree_->fail({1, 0}, function + "() makes more values than a recipe has");
  }
}
EvaluatedPython::EvaluatedPython(EvaluatedPython&&) noexcept = default;
EvaluatedPython::~EvaluatedPython() = default;

void EvaluatedPython::add_sections(std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    tree_->add_section(name);
}

void EvaluatedPython::change(std::span<const Change> changes) {
  for (const Change& change : changes)
    tree_->change(change);
}

ObjectReader EvaluatedPython::root_object() const {
  return ValueReader{tree_.get(), tree_->root()}.object();
}

void EvaluatedPython::finish() const {
  tree_->report_unknown_keys();
  tree_->throw_problems();
}

}  // namespace sim

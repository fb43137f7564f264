// Python functions that build a Trainer.Config (torchtitan's config_registry.py) as a tree, one
// object for each of them:
//   return Trainer.Config(KEY=VALUE)   these keys of the function
//   config = other()                   what that function of the file, which stands before it, has
//   config.section.key = VALUE         that path
//   name = VALUE                       in the place of the name from there on
//   helper(config)                     one of the list "_calls"
// and "_name" is that of the function. VALUE is a number, a string, True, False, None, a list, a
// dict, a name, or a call, which is an object with its name as "_target_", its arguments as "_0",
// "_1" and by name; a call of its result is left out. An argument that is no such value is its
// text; another line is left out, and stands in the list "_unread".
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/characters.hpp"
#include "sim/scripts/script_parsers.hpp"

namespace sim {
namespace {

struct Node {
  ValueKind kind = ValueKind::null;
  TextPlace place;
  std::string text;
  struct Entry {
    std::string key;
    TextPlace place;
    std::vector<Node> value;  // one
  };
  std::vector<Entry> entries;  // of objects; of lists without keys

  Node& at(const std::string& key, TextPlace where) {
    for (Entry& entry : entries)
      if (entry.key == key) return entry.value.front();
    entries.push_back({key, where, {Node{}}});
    return entries.back().value.front();
  }
};

// Unread is thrown where a line has something that is not read.
struct Unread {};

class Reader {
 public:
  explicit Reader(const Tree& tree) : text_{tree.source()} {}

  Node read() {
    Node file{ValueKind::object, {1, 0}, "", {}};
    std::string name;
    const auto end_function = [&] {
      if (!name.empty()) file.at(name, root_.place) = std::move(root_);
    };
    while (skip_blank(), !done()) {
      const TextPlace begin = place();
      if (begin.byte == 0) {
        const std::string next = top_level();
        if (next.empty()) continue;
        end_function();
        name = next;
        root_ = {ValueKind::object, begin, "", {}};
        begin_function(name, begin, file);
      } else if (name.empty()) {
        skip_line();
      } else {
        statement();
      }
    }
    end_function();
    return file;
  }

 private:
  static constexpr int most_nested = 32;

  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  TextPlace place() const { return {line_, static_cast<std::int32_t>(at_ - line_start_)}; }
  void step() {
    if (done() || text_[at_++] != '\n') return;
    ++line_;
    line_start_ = at_;
  }
  // Within brackets line breaks are blanks.
  void skip_blank() {
    for (; !done(); step()) {
      if (peek() == '#') {
        while (!done() && peek() != '\n')
          step();
        if (done()) return;
      }
      if (std::isspace(static_cast<unsigned char>(peek())) == 0) return;
    }
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t')
      step();
  }

  // The name of "def name(...) -> type:"; empty: another statement.
  std::string top_level() {
    const std::string word = dotted();
    skip_spaces();
    std::string name = word == "def" ? dotted() : "";
    if (!name.empty()) skip_definition();
    if (name.empty()) skip_line();
    return name;
  }

  void statement() {
    const TextPlace begin = place();
    const std::size_t from = at_;
    try {
      if (peek() == '"' || peek() == '\'') {
        static_cast<void>(string());  // a docstring
        return end_of_line();
      }
      if (!starts_name(peek())) throw Unread{};
      const std::string name = dotted();
      if (name == "return") return returned(begin);
      // A block under a condition is read as if the condition held.
      if (name == "else" || name == "elif") return skip_block(begin);
      skip_spaces();
      if (peek() == '(' && name.find('.') == std::string::npos) return call(name, begin);
      if (peek() != '=' || peek(1) == '=') throw Unread{};
      step();
      skip_spaces();
      assign(name, begin);
      end_of_line();
    } catch (const Unread&) {
      leave(from, begin);
    }
  }

  void begin_function(const std::string& name, TextPlace begin, Node& file) {
    file_ = &file;
    locals_.clear();
    config_.clear();
    root_.at("_name", begin) = {ValueKind::quoted, begin, name, {}};
  }

  // Names stand for copies, which could double with every line.
  static constexpr int most_copied = 2000;
  static int size_of(const Node& node, int limit = most_copied) {
    int size = 1;
    for (const Node::Entry& entry : node.entries) {
      if (size > limit) return size;
      size += size_of(entry.value.front(), limit - size);
    }
    return size;
  }

  static std::string target_of(const Node& node) {
    if (node.kind != ValueKind::object || node.entries.empty()) return "";
    const Node::Entry& first = node.entries.front();
    return first.key == "_target_" ? first.value.front().text : "";
  }

  // A value and nothing behind it in its line.
  Node whole_value() {
    Node given = value(0);
    end_of_line();
    return given;
  }
  // keep() sets what a name means from here on.
  void keep(const std::string& name, Node given) {
    if (size_of(given) > most_copied) throw Unread{};
    locals_[name] = std::move(given);
  }
  // Back to where `begin` was read, which stands at `from`.
  void rewind(std::size_t from, TextPlace begin) {
    at_ = from;
    line_ = begin.line;
    line_start_ = from - static_cast<std::size_t>(begin.byte);
  }

  // A configuration: one that is built, or that of a function of the file. False: neither.
  bool take_configuration(const Node& made) {
    const std::string target = target_of(made);
    if (target.ends_with("Trainer.Config")) {
      for (const Node::Entry& entry : made.entries)
        if (entry.key != "_target_") root_.at(entry.key, entry.place) = entry.value.front();
      return true;
    }
    for (const Node::Entry& function : file_->entries) {
      if (function.key != target) continue;
      if (size_of(function.value.front()) > most_copied) throw Unread{};
      for (const Node::Entry& entry : function.value.front().entries)
        if (entry.key != "_name") root_.at(entry.key, entry.place) = entry.value.front();
      return true;
    }
    return false;
  }

  // A name that another function returns stands for itself.
  void returned(TextPlace begin) {
    skip_spaces();
    if (done() || peek() == '\n') return;
    const Node made = whole_value();
    const std::string target = target_of(made);
    if (!target.empty() && !take_configuration(made)) throw Unread{};
    if (!target.empty()) root_.at("_returns", begin) = {ValueKind::plain, begin, "true", {}};
  }

  void assign_of_trainer(const std::string& name, TextPlace begin) {
    try {
      Node given = value(0);
      if (take_configuration(given)) {
        config_ = name;
        root_.at("_returns", begin) = {ValueKind::plain, begin, "true", {}};
        return;
      }
      end_of_line();
      keep(name, std::move(given));
    } catch (const Unread&) {
      skip_line();  // what is no value is not known where the name stands
    }
  }

  // One line, or all that its brackets hold.
  void leave(std::size_t from, TextPlace begin) {
    rewind(from, begin);
    skip_line();
    std::string what{text_.substr(from, std::min<std::size_t>(at_ - from, 60))};
    what = what.substr(0, what.find('\n'));
    Node& unread = root_.at("_unread", begin);
    unread.kind = ValueKind::list;
    unread.entries.push_back({"", begin, {Node{ValueKind::quoted, begin, what, {}}}});
  }

  void skip_line() {
    int depth = 0;
    while (!done()) {
      const char c = peek();
      if (c == '"' || c == '\'') {
        try {
          static_cast<void>(string());
        } catch (const Unread&) {
          step();
        }
        continue;
      }
      if (c == '#') {
        while (!done() && peek() != '\n')
          step();
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (c == '\n' && depth <= 0) return;
      step();
    }
  }
  // A line and those below it that stand further in.
  void skip_block(TextPlace begin) {
    skip_line();
    for (skip_blank(); !done() && place().byte > begin.byte; skip_blank())
      skip_line();
  }
  void skip_definition() {
    while (!done() && peek() != ':')
      peek() == '(' ? skip_brackets() : step();
    skip_line();
  }
  void skip_brackets() {
    int depth = 0;
    do {
      if (peek() == '(') ++depth;
      if (peek() == ')') --depth;
      step();
    } while (!done() && depth > 0);
  }
  void end_of_line() {
    skip_spaces();
    if (!done() && peek() != '\n' && peek() != '#') throw Unread{};
  }

  std::string dotted() {
    std::string name;
    while (in_name(peek()) || peek() == '.') {
      name += peek();
      step();
    }
    return name;
  }

  void call(const std::string& name, TextPlace begin) {
    skip_brackets();
    end_of_line();
    Node& calls = root_.at("_calls", begin);
    calls.kind = ValueKind::list;
    calls.entries.push_back({"", begin, {Node{ValueKind::quoted, begin, name, {}}}});
  }

  void assign(const std::string& name, TextPlace begin) {
    if (name.find('.') == std::string::npos) return assign_of_trainer(name, begin);
    assign_path(name, config_ + ".", begin);
  }

  void assign_path(const std::string& name, const std::string& prefix, TextPlace begin) {
    if (!name.starts_with(prefix) || name.ends_with(".") || name.find("..") != std::string::npos)
      throw Unread{};
    Node given = whole_value();
    Node* in = &root_;
    std::string path = name.substr(prefix.size());
    for (std::size_t dot = 0; (dot = path.find('.')) != std::string::npos;) {
      in = &in->at(path.substr(0, dot), begin);
      in->kind = ValueKind::object;
      if (in->place.line == 0) in->place = begin;
      path = path.substr(dot + 1);
    }
    in->at(path, begin) = std::move(given);
  }

  Node value(int depth) {
    if (depth > most_nested) throw Unread{};
    Node node = term(depth);
    skip_spaces();
    while (peek() == '*' && node.kind == ValueKind::plain) {
      step();
      skip_spaces();
      node.text = product(node.text, term(depth).text);
      skip_spaces();
    }
    return node;
  }

  static std::string product(const std::string& a, const std::string& b) {
    long long x = 0, y = 0, made = 0;
    const auto whole = [](const std::string& text, long long& into) {
      return std::from_chars(text.data(), text.data() + text.size(), into).ptr ==
                 text.data() + text.size() &&
             !text.empty();
    };
    if (!whole(a, x) || !whole(b, y) || __builtin_mul_overflow(x, y, &made)) throw Unread{};
    return std::to_string(made);
  }

  Node term(int depth) {
    const TextPlace begin = place();
    const char c = peek();
    if (c == '"' || c == '\'') return {ValueKind::quoted, begin, string(), {}};
    if (c == '[' || c == '(') return list(depth, c == '[' ? ']' : ')');
    if (c == '{') return dict(depth);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.') return number();
    if (!starts_name(c)) throw Unread{};
    const std::string name = dotted();
    if (name == "None") return {ValueKind::null, begin, "null", {}};
    if (name == "True") return {ValueKind::plain, begin, "true", {}};
    if (name == "False") return {ValueKind::plain, begin, "false", {}};
    if (peek() == '(') return call_value(name, begin, depth);
    const auto local = locals_.find(name);
    if (local == locals_.end()) return {ValueKind::quoted, begin, name, {}};
    Node known = local->second;
    known.place = begin;
    return known;
  }

  // An argument of a call; its text, where it is no value that is read: who asks for another one
  // refuses it.
  Node argument(int depth) {
    const TextPlace begin = place();
    const std::size_t from = at_;
    try {
      Node node = value(depth);
      skip_blank();
      if (done() || peek() == ',' || peek() == ')') return node;
    } catch (const Unread&) {
      if (depth > most_nested) throw;
    }
    rewind(from, begin);
    skip_argument();
    return {ValueKind::quoted, begin, std::string{text_.substr(from, at_ - from)}, {}};
  }
  void skip_argument() {
    for (int depth = 0; !done(); step()) {
      const char c = peek();
      if (depth == 0 && (c == ',' || c == ')')) return;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
    }
  }

  Node number() {
    Node node{ValueKind::plain, place(), "", {}};
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '.' ||
           peek() == '_' ||
           ((peek() == '-' || peek() == '+') && (node.text.empty() || node.text.back() == 'e'))) {
      if (peek() != '_') node.text += peek();
      step();
    }
    return node;
  }

  std::string string() {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    for (int i = 0; i < (triple ? 3 : 1); ++i)
      step();
    std::string text;
    while (!done()) {
      const bool ends = peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote));
      if (ends) {
        for (int i = 0; i < (triple ? 3 : 1); ++i)
          step();
        return text;
      }
      if (peek() == '\n' && !triple) throw Unread{};
      if (peek() == '\\') step();
      if (done()) break;
      text += peek();
      step();
    }
    throw Unread{};
  }

  Node list(int depth, char end) {
    Node node{ValueKind::list, place(), "", {}};
    step();
    for (skip_blank(); !done() && peek() != end; skip_blank()) {
      const TextPlace begin = place();
      node.entries.push_back({"", begin, {value(depth + 1)}});
      skip_blank();
      if (peek() == ',') step();
    }
    if (done()) throw Unread{};
    step();
    return node;
  }

  // Entries that are spread from another dict are left out.
  Node dict(int depth) {
    Node node{ValueKind::object, place(), "", {}};
    step();
    for (skip_blank(); !done() && peek() != '}'; skip_blank()) {
      const TextPlace begin = place();
      if (peek() == '*' && peek(1) == '*') {
        step(), step();
        static_cast<void>(dotted());
      } else {
        const std::string key = string();
        skip_blank();
        if (peek() != ':') throw Unread{};
        step();
        skip_blank();
        node.at(key, begin) = value(depth + 1);
      }
      skip_blank();
      if (peek() == ',') step();
    }
    if (done()) throw Unread{};
    step();
    return node;
  }

  Node call_value(const std::string& name, TextPlace begin, int depth) {
    Node node{ValueKind::object, begin, "", {}};
    node.at("_target_", begin) = {ValueKind::quoted, begin, name, {}};
    step();
    int unnamed = 0;
    for (skip_blank(); !done() && peek() != ')'; skip_blank()) {
      const TextPlace where = place();
      const std::size_t from = at_;
      std::string key = starts_name(peek()) ? dotted() : "";
      if (key.empty() || peek() != '=') {
        at_ = from;  // no line break lies between
        key = fmt::format("_{}", unnamed++);
      } else {
        step();
      }
      node.at(key, where) = argument(depth + 1);
      skip_blank();
      if (peek() == ',') step();
    }
    if (done()) throw Unread{};
    step();
    while (peek() == '.' && starts_name(peek(1))) {
      static_cast<void>(dotted());
      if (peek() != '(') throw Unread{};
      skip_brackets();
    }
    return node;
  }

  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0;
  std::int32_t line_ = 1;
  Node root_;
  std::map<std::string, Node> locals_;
  const Node* file_ = nullptr;
  std::string config_;  // the variable that holds the configuration
};

void add(const Node& node, Tree& tree) {
  if (node.kind != ValueKind::object && node.kind != ValueKind::list) {
    tree.add_scalar(node.place, node.kind, node.text);
    return;
  }
  tree.open(node.place, node.kind);
  for (const Node::Entry& entry : node.entries) {
    if (node.kind == ValueKind::object) tree.add_key(entry.place, entry.key);
    add(entry.value.front(), tree);
  }
  tree.close();
}

}  // namespace

void parse_python_into(Tree& tree) {
  const Node root = Reader{tree}.read();
  add(root, tree);
}

}  // namespace sim

// YAML through the events of yaml-cpp. Its nodes are not used: they keep the first of two equal
// keys, copy aliases, and know no columns of keys.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <map>
#include <streambuf>

#include "sim/config/parsers.hpp"

namespace sim {
namespace {

TextPlace to_place(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column};
}

class TreeEvents : public YAML::EventHandler {
 public:
  explicit TreeEvents(Tree& tree) : tree_{tree} {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      tree_.fail(to_place(mark), "a second YAML document begins here; allowed: one per file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (tree_.wants_key()) tree_.fail(to_place(mark), "a key is empty; expected 'key: value'");
    name(anchor, tree_.add_scalar(to_place(mark), ValueKind::null, {}));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const TextPlace place = to_place(mark);
    if (tree_.wants_key()) tree_.fail(place, "an alias cannot be a key");
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) tree_.fail(place, "an alias to a key is not supported");
    if (tree_.is_open(target->second))
      tree_.fail(place, "cyclic alias: it refers to a value around it");
    tree_.add_alias(place, target->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const TextPlace place = to_place(mark);
    refuse_tag(place, tag);
    if (tag == "!") refuse_open_quote(place);
    if (tree_.wants_key()) {
      tree_.add_key(place, value);
      return;
    }
    name(anchor, tree_.add_scalar(place, tag == "!" ? ValueKind::quoted : ValueKind::plain, value));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(to_place(mark), tag, anchor, ValueKind::list);
  }
  void OnSequenceEnd() override { tree_.close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(to_place(mark), tag, anchor, ValueKind::object);
  }
  void OnMapEnd() override { tree_.close(); }

 private:
  void open(TextPlace place, const std::string& tag, YAML::anchor_t anchor, ValueKind kind) {
    refuse_tag(place, tag);
    if (tree_.wants_key()) tree_.fail(place, "a key must be text, not a list or an object");
    name(anchor, tree_.open(place, kind));
  }

  // yaml-cpp says "?" for a plain value without tag and "!" for a quoted one.
  void refuse_tag(TextPlace place, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") tree_.fail(place, "YAML tags are not supported");
  }

  // yaml-cpp 0.7 takes a quoted text that is still open where the file ends, if it ends in a line
  // end. Hence the closing quote is looked for here.
  void refuse_open_quote(TextPlace place) const {
    const std::string_view source = tree_.source();
    std::size_t at = tree_.offset(place);
    if (at < source.size() && source[at] == '&') {  // an anchor stands before the text
      at = source.find_first_of(" \t\r\n", at);
      at = at == std::string_view::npos ? at : source.find_first_not_of(" \t\r\n", at);
    }
    if (at >= source.size() || (source[at] != '"' && source[at] != '\'')) return;
    const char quote = source[at];
    for (++at; at < source.size(); ++at) {
      const bool doubled = quote == '\'' && source.substr(at).starts_with("''");
      if ((quote == '"' && source[at] == '\\') || doubled)
        ++at;
      else if (source[at] == quote)
        return;
    }
    tree_.fail(place, "not valid YAML: the quote that opens here is never closed");
  }

  void name(YAML::anchor_t anchor, NodeIndex node) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
  }

  Tree& tree_;
  int documents_ = 0;
  std::map<YAML::anchor_t, NodeIndex> anchors_;
};

// yaml-cpp reads from a stream only; this one reads the text where it lies.
class MemoryBuffer : public std::streambuf {
 public:
  explicit MemoryBuffer(std::string_view text) {
    // The get area is never written to: there is no putback of other characters.
    char* begin = const_cast<char*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    setg(begin, begin, begin + text.size());
  }
};

// yaml-cpp reads ahead to the end of a bracket before it says anything, and needs some 200 bytes
// per token for it: hopeless nesting and endless one-line lists are refused before it sees them.
// Counted without regard to quotes and comments, hence so generously.
void refuse_bracket_floods(const Tree& tree) {
  constexpr int most_open = 4096;
  constexpr int most_separators = 1'000'000;
  int open = 0;
  int separators = 0;
  TextPlace place{1, 0};
  for (const char c : tree.source()) {
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0) --open;
    if (c == ',' && open > 0) ++separators;
    if (open > most_open)
      tree.fail(place, fmt::format("values are nested deeper than {} levels", Tree::max_depth));
    if (separators > most_separators)
      tree.fail(place, fmt::format("more than {} values in brackets", most_separators));
    ++place.byte;
    if (c == '\n') place = {place.line + 1, 0};
  }
}

}  // namespace

void parse_yaml_into(Tree& tree) {
  refuse_bracket_floods(tree);
  MemoryBuffer buffer{tree.source()};
  std::istream stream{&buffer};
  TreeEvents events{tree};
  try {
    YAML::Parser parser{stream};
    if (!parser.HandleNextDocument(events)) tree.fail({}, "the file is empty");
    parser.HandleNextDocument(events);  // there is none, or OnDocumentStart refuses it
  } catch (const YAML::Exception& error) {
    const TextPlace place = error.mark.is_null() ? TextPlace{} : to_place(error.mark);
    const std::string_view line = tree.line_text(place.line);
    const std::string_view indent = line.substr(0, line.find_first_not_of(" \t"));
    const bool tab = indent.find('\t') != std::string_view::npos;
    tree.fail(place, fmt::format("not valid YAML: {}{}", error.msg,
                                 tab ? "; the line is indented with a tab, use spaces" : ""));
  }
}

}  // namespace sim

// Slurm's topology.conf (topology/tree, topology/block) and topology.yaml. Neither says how many
// links join two switches.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/topology/survey/survey.hpp"

namespace sim {
namespace {

constexpr std::size_t most_names = 1 << 17;      // of one list
constexpr std::size_t most_names_all = 1 << 20;  // of a file
constexpr std::size_t most_slurm_switches = 1 << 16;

// The names in "gpu[001-016,020],login1", as Slurm's hostlists write them: one pair of brackets in
// a name, or several. Throws InputError.
class HostList {
 public:
  HostList(std::string_view text, SourcePosition where) : where_{std::move(where)} {
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      const char c = i < text.size() ? text[i] : ',';
      depth += c == '[' ? 1 : c == ']' ? -1 : 0;
      if (depth < 0 || depth > 1) fail(text);
      if (c != ',' || (depth > 0 && i < text.size())) continue;
      if (i > begin) expand("", text.substr(begin, i - begin));
      begin = i + 1;
    }
    if (depth != 0) fail(text);
  }
  std::vector<std::string> names() && { return std::move(names_); }

 private:
  [[noreturn]] void fail(std::string_view text) const {
    throw InputError{where_,
                     fmt::format("'{}' is no list of names as node[01-16,20]", text.substr(0, 60))};
  }

  void expand(const std::string& head, std::string_view rest) {
    const std::size_t open = rest.find('[');
    if (open == std::string_view::npos) {
      if (names_.size() >= most_names) throw InputError{where_, "more than 131072 names"};
      names_.push_back(head + std::string{rest});
      return;
    }
    const std::size_t close = rest.find(']', open);
    if (close == std::string_view::npos) fail(rest);
    std::string_view ranges = rest.substr(open + 1, close - open - 1);
    if (ranges.empty()) fail(rest);
    while (!ranges.empty()) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      range(head + std::string{rest.substr(0, open)}, ranges.substr(0, comma),
            rest.substr(close + 1));
      ranges.remove_prefix(std::min(comma + 1, ranges.size()));
    }
  }

  void range(const std::string& head, std::string_view item, std::string_view tail) {
    const std::size_t dash = item.find('-');
    const std::string_view low = item.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : item.substr(dash + 1);
    const std::int64_t first = number(low), last = number(high);
    if (last < first || last - first >= static_cast<std::int64_t>(most_names)) fail(item);
    for (std::int64_t i = first; i <= last; ++i)
      expand(fmt::format("{}{:0{}}", head, i, low.size()), tail);
  }

  std::int64_t number(std::string_view text) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || text.size() > 12 || error != std::errc{} || value < 0 ||
        end != text.data() + text.size())
      fail(text);
    return value;
  }

  SourcePosition where_;
  std::vector<std::string> names_;
};

std::vector<std::string> names_in(std::string_view text, const SourcePosition& where) {
  return HostList{text, where}.names();
}

void check_number(std::size_t names, const SourcePosition& where) {
  if (names > most_names_all) throw InputError{where, "more than 1048576 names in one file"};
}

// Switches by name, whose children may come later.
class Tree {
 public:
  void add(const std::string& name, std::vector<std::string> nodes,
           std::vector<std::string> children, const SourcePosition& where) {
    if (!known_.try_emplace(name, entries_.size()).second)
      throw InputError{where, fmt::format("switch '{}' is named a second time", name)};
    if (entries_.size() >= most_slurm_switches) throw InputError{where, "more than 65536 switches"};
    check_number(names_ += nodes.size() + children.size(), where);
    entries_.push_back({name, std::move(nodes), std::move(children), where});
  }
  bool empty() const { return entries_.empty(); }

  FabricSurvey survey(std::string format, std::string name) const {
    FabricSurvey survey{.format = std::move(format), .name = std::move(name)};
    std::size_t distinct = 0;
    for (const Entry& entry : entries_) {
      survey.switches.push_back(
          {.name = entry.name, .nodes = static_cast<std::int64_t>(entry.nodes.size())});
      distinct += entry.nodes.size();
    }
    survey.nodes = static_cast<std::int64_t>(distinct);
    for (std::size_t i = 0; i < entries_.size(); ++i)
      for (const std::string& child : entries_[i].children) {
        const auto found = known_.find(child);
        if (found == known_.end())
          throw InputError{entries_[i].where,
                           fmt::format("switch '{}' has '{}' below it, which is no switch of this "
                                       "file",
                                       entries_[i].name, child)};
        survey.switches[i].links[found->second] = 1;
        survey.switches[found->second].links[i] = 1;
      }
    set_levels(survey);
    return survey;
  }

 private:
  struct Entry {
    std::string name;
    std::vector<std::string> nodes, children;
    SourcePosition where;
  };
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> known_;
  std::size_t names_ = 0;
};

FabricSurvey new_blocks(std::string name) {
  return {.format = "Slurm topology/block", .name = std::move(name), .blocks = true};
}
void add_block(FabricSurvey& survey, std::string name, std::size_t nodes,
               const SourcePosition& where) {
  check_number(static_cast<std::size_t>(survey.nodes) + nodes, where);
  survey.switches.push_back({.name = std::move(name), .nodes = static_cast<std::int64_t>(nodes)});
  survey.nodes += static_cast<std::int64_t>(nodes);
}

std::string lower(std::string_view text) {
  std::string low{text};
  std::ranges::transform(low, low.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return low;
}

class ConfReader {
 public:
  ConfReader(std::string_view text, const std::string& name) : text_{text}, name_{name} {}

  std::vector<FabricSurvey> read() {
    for (std::size_t begin = 0; begin < text_.size();) {
      std::string line;
      const int first = line_ + 1;
      do {
        const std::size_t end = std::min(text_.find('\n', begin), text_.size());
        ++line_;
        if (line.ends_with('\\')) line.back() = ' ';
        line += text_.substr(begin, end - begin);
        if (line.ends_with('\r')) line.pop_back();
        begin = end + 1;
      } while (line.ends_with('\\') && begin < text_.size());
      read_line(std::string_view{line}.substr(0, line.find('#')), {name_, first, 1});
    }
    std::vector<FabricSurvey> surveys;
    if (!tree_.empty()) surveys.push_back(tree_.survey("Slurm topology/tree", ""));
    if (!blocks_.switches.empty()) surveys.push_back(std::move(blocks_));
    if (surveys.empty()) throw InputError{{name_, 0, 0}, "no line names a switch or a block"};
    return surveys;
  }

 private:
  void read_line(std::string_view line, const SourcePosition& where) {
    std::map<std::string, std::string_view> values;
    while (true) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin == std::string_view::npos) break;
      line.remove_prefix(begin);
      const std::string_view pair = line.substr(0, line.find_first_of(" \t"));
      line.remove_prefix(pair.size());
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos)
        throw InputError{where, fmt::format("'{}': expected KEY=VALUE", pair.substr(0, 60))};
      values[lower(pair.substr(0, equals))] = pair.substr(equals + 1);
    }
    const auto list = [&](const char* key) { return names_in(values[key], where); };
    if (values.contains("switchname"))
      tree_.add(std::string{values["switchname"]}, list("nodes"), list("switches"), where);
    else if (values.contains("blockname"))
      add_block(blocks_, std::string{values["blockname"]}, list("nodes").size(), where);
    else if (values.contains("blocksizes"))
      for (const std::string& size : list("blocksizes"))
        blocks_.block_sizes.push_back(std::atoll(size.substr(0, 9).c_str()));
  }

  std::string_view text_;
  const std::string& name_;
  Tree tree_;
  FabricSurvey blocks_ = new_blocks("");
  int line_ = 0;
};

std::vector<std::string> names_of(const ObjectReader& object, const char* key) {
  return object.has(key) ? names_in(object.text(key), object.where(key))
                         : std::vector<std::string>{};
}

FabricSurvey yaml_tree(const ObjectReader& object, const std::string& name) {
  Tree tree;
  for (const ValueReader& value : object.list("switches")) {
    const ObjectReader one = value.object();
    tree.add(one.text("switch"), names_of(one, "nodes"), names_of(one, "children"), one.where());
    one.ignore_unknown();
  }
  return tree.survey("Slurm topology/tree", name);
}

FabricSurvey yaml_blocks(const ObjectReader& object, const std::string& name) {
  FabricSurvey survey = new_blocks(name);
  if (object.has("block_sizes"))
    for (const ValueReader& size : object.list("block_sizes"))
      survey.block_sizes.push_back(size.integer({.min = 1, .max = 1 << 24}));
  for (const ValueReader& value : object.list("blocks")) {
    const ObjectReader one = value.object();
    add_block(survey, one.text("block"), names_of(one, "nodes").size(), one.where());
    one.ignore_unknown();
  }
  return survey;
}

std::vector<FabricSurvey> yaml_surveys(std::string_view text, const std::string& name) {
  const Document document = Document::parse_yaml(text, name);
  std::vector<FabricSurvey> surveys;
  for (const ValueReader& value : document.root_object().list("topologies")) {
    const ObjectReader one = value.object();
    const std::string called = one.text_or("topology", "");
    if (one.has("tree")) surveys.push_back(yaml_tree(one.object("tree"), called));
    if (one.has("block")) surveys.push_back(yaml_blocks(one.object("block"), called));
    if (one.has("flat")) surveys.push_back({.format = "Slurm topology/flat", .name = called});
    one.ignore_unknown();
  }
  document.finish();
  if (surveys.empty()) throw InputError{{name, 0, 0}, "it has neither a tree nor blocks"};
  return surveys;
}

}  // namespace

std::vector<FabricSurvey> survey_slurm_conf(std::string_view text, const std::string& name) {
  return ConfReader{text, name}.read();
}

// The file is a list; it is read as the value of a key in a line before it.
std::vector<FabricSurvey> survey_slurm_yaml(std::string_view text, const std::string& name) {
  const bool marked = text.starts_with("---\n");
  try {
    return yaml_surveys(fmt::format("topologies:\n{}", marked ? text.substr(4) : text), name);
  } catch (const InputError& error) {
    if (marked) throw;
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems)
      problem.where.line = std::max(0, problem.where.line - 1);
    throw InputError{std::move(problems)};
  }
}

}  // namespace sim

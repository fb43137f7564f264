// A scenario with --set and every assumption in it, as YAML that can be run again.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "sim/base/input_error.hpp"
#include "sim/economics/budget.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

// Without quotes where YAML takes it as it stands, or as the number or word that it is.
std::string scalar(std::string_view text) {
  constexpr std::string_view harmless = "_./+-%(), ";
  const auto plain = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           harmless.find(c) != std::string_view::npos;
  };
  const bool begins = !text.empty() && (std::isalnum(static_cast<unsigned char>(text[0])) != 0 ||
                                        text[0] == '/' || text[0] == '.');
  if (begins && text.back() != ' ' && text != "null" &&
      std::all_of(text.begin(), text.end(), plain))
    return std::string{text};
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n' || c == '\t') {
      quoted += c == '\n' ? "\\n" : "\\t";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Writes the file with the values of --set over it.
class Writer {
 public:
  Writer(const Scenario& scenario, const std::string& folder)
      : scenario_{scenario}, folder_{std::filesystem::absolute(folder).lexically_normal()} {}

  void line(std::size_t indent, const std::string& text) {
    // A file of aliases to aliases may be short and mean much.
    constexpr std::size_t longest = std::size_t{4} << 20;
    if (text_.size() > longest)
      throw InputError{SourcePosition{scenario_.path, 0, 0}, "too long to be written out"};
    text_ += std::string(indent, ' ') + text + '\n';
  }

  // The section `path` ("layout", "layout.overlap"; empty: the whole file).
  void object(std::size_t indent, const Layered& section, const std::string& path) {
    for (const std::string& key : keys_of(section)) {
      const std::string name = path.empty() ? key : fmt::format("{}.{}", path, key);
      if (name == "budget" || name == "name") continue;
      if (name == "cluster") {
        cluster(section);
        continue;
      }
      if (!section.has(key)) continue;  // null
      const ValueReader value = section.holder(key)->at(key);
      refuse_half_sections(section, key);
      if (value.is_object()) {
        line(indent, key + ':');
        object(indent + 2, section.object(key), name);
      } else if (value.is_list()) {
        list(indent, key + ':', value);
      } else {
        const bool path_of_file = name == "model" || name == "training.data";
        const std::string text = value.peek_text().value_or("");
        line(indent,
             key + ": " + scalar(path_of_file ? moved(text, section.overridden(key)) : text));
      }
    }
  }

  std::string take() { return std::move(text_); }

 private:
  // "overlap: false" in the file and "--set layout.overlap.pipeline=true" mean both.
  static void refuse_half_sections(const Layered& section, const std::string& key) {
    int objects = 0, others = 0;
    section.each([&](const ObjectReader& layer) {
      if (layer.has(key)) ++(layer.at(key).is_object() ? objects : others);
    });
    if (objects > 0 && others > 0)
      section.problem(key, fmt::format("{} is a value in the file or --set and a section in the "
                                       "other: such a scenario cannot be saved",
                                       key));
  }

  static std::vector<std::string> keys_of(const Layered& section) {
    std::vector<std::string> keys;
    section.each([&](const ObjectReader& layer) {
      for (std::string& key : layer.keys())
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
    });
    return keys;
  }

  // "cluster: FILE" is short for "cluster: {path: FILE}", and --set may add to it.
  void cluster(const Layered& top) {
    line(0, "cluster:");
    const Layered section = top.object("cluster");
    const ObjectReader* plain = top.scalar_holder("cluster");
    if (plain && !section.overridden("path"))
      line(2, "path: " + scalar(moved(plain->text("cluster"), top.is_upper(plain))));
    else
      line(2, "path: " + scalar(moved(section.text_or("path", ""), section.overridden("path"))));
    for (const std::string& key : keys_of(section)) {
      if (key == "path" || !section.has(key)) continue;
      const ValueReader value = section.holder(key)->at(key);
      if (value.is_object()) {
        line(2, key + ':');
        object(4, section.object(key), "cluster." + key);
      } else {
        line(2, key + ": " + scalar(value.peek_text().value_or("")));
      }
    }
  }

  void list(std::size_t indent, const std::string& head, const ValueReader& value) {
    const std::vector<ValueReader> items = value.list();
    line(indent, items.empty() ? head + " []" : head);
    for (const ValueReader& item : items) {
      if (item.is_list()) {
        list(indent + 2, "-", item);
      } else if (item.is_object()) {
        line(indent + 2, "-");
        object(indent + 4, Layered{item.object(), std::nullopt}, "-");
      } else {
        line(indent + 2, "- " + scalar(item.peek_text().value_or("")));
      }
    }
  }

  // A path of the scenario file, or of --set (then as seen from here), as seen from the new folder.
  std::string moved(const std::string& path, bool by_hand) const {
    const std::filesystem::path there =
        std::filesystem::absolute(by_hand ? path : resolve_path(scenario_.path, path))
            .lexically_normal();
    return there.lexically_relative(folder_).string();
  }

  const Scenario& scenario_;
  std::filesystem::path folder_;
  std::string text_;
};

void write_assumptions(Writer& writer, const std::vector<Assumption>& assumptions) {
  writer.line(0, "budget:");
  std::string section;
  for (const Assumption& assumption : assumptions) {
    const std::size_t dot = assumption.key.find('.');
    const std::string head = dot == std::string::npos ? "" : assumption.key.substr(0, dot);
    if (!head.empty() && head != section) writer.line(2, head + ':');
    section = head;
    writer.line(head.empty() ? 2 : 4, assumption.key.substr(head.empty() ? 0 : dot + 1) + ": " +
                                          scalar(assumption.value));
  }
  writer.line(2, "sources:");
  for (const Assumption& assumption : assumptions)
    writer.line(4, assumption.key + ": " + scalar(assumption.source));
}

}  // namespace

std::string resolved_scenario(const Scenario& scenario, const std::vector<std::string>& overrides,
                              const Budget& budget, const std::string& folder) {
  const ScenarioSources sources{scenario.path, overrides};
  Writer writer{scenario, folder};
  writer.line(0, "name: " + scalar(scenario.name));
  writer.object(0, sources.top(), "");
  write_assumptions(writer, budget.assumptions);
  sources.finish();
  return writer.take();
}

}  // namespace sim

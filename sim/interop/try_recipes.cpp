#include "sim/interop/try_recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "sim/config/foreign/foreign_format.hpp"
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/job_kind.hpp"
#include "sim/interop/megatron/mlperf.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> endings{".sh",  ".sbatch", ".slurm", ".gin", ".yaml",
                                                   ".yml", ".toml",   ".json",  ".py",  ".args"};
constexpr std::uintmax_t most_bytes = 1 << 20;

std::string text_of(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// The same sentence for files that differ in names and numbers.
std::string without_values(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::size_t end = c == '\'' ? text.find('\'', i + 1) : std::string_view::npos;
    // The name of a key is what the sentence is about.
    const bool names_key = plain.ends_with("unknown key ");
    if (end != std::string_view::npos) {
      plain += names_key ? text.substr(i, std::min<std::size_t>(end - i + 1, 48)) : "'...'";
      i = end;
    } else if (is_digit(c) &&
               (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0)) {
      while (i + 1 < text.size() && (is_digit(text[i + 1]) || text[i + 1] == '.'))
        ++i;
      plain += 'N';
    } else {
      plain += c;
    }
  }
  return plain.substr(0, 140);
}

void add_reason(std::string_view text, TriedRecipe& tried) {
  std::string reason = without_values(text);
  if (std::ranges::find(tried.reasons, reason) == tried.reasons.end())
    tried.reasons.push_back(std::move(reason));
}

// Whether it was read; reasons as of this try.
bool try_once(const JobFile& job, TriedRecipe& tried) {
  tried.reasons.clear();
  try {
    const ImportedJob imported = import_job(tried.kind, job);
    for (const Note& note : imported.notes)
      if (note.key != "gpus") add_reason(note.key + ": " + note.what, tried);
    return true;
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      add_reason(problem.what, tried);
  } catch (const std::exception& error) {
    add_reason(std::string{"internal error: "} + error.what(), tried);
  }
  return false;
}

class Trial {
 public:
  Trial(JobKind kind, JobFile job, const Fallback& fallback)
      : kind_{kind}, job_{std::move(job)}, fallback_{fallback} {}

  // First as it is, then with what it leaves open, of which it may say a part, on more and more
  // GPUs.
  TriedRecipe run(TriedRecipe tried) {
    if (tried.kind != JobKind::mlperf || cluster_of_mlperf(job_.file).empty())
      job_.cluster = fallback_.cluster;
    if (try_once(job_, tried)) return read(tried, false);
    TriedRecipe best = tried;
    job_.known.sequence_length = fallback_.sequence_length;
    const bool counted = gpus_of_recipe(tried.recipe) > 0;
    for (const bool with_model : {false, true})
      for (const Batch batch : {Batch::none, Batch::sizes, Batch::with_format})
        for (const int gpus : {0, 8, 64, 512, 1024, 4096, 16'384}) {
          if (counted && gpus > 0) continue;
          give(with_model, batch, gpus);
          if (try_once(job_, tried)) return read(tried, true);
          // The reason for which a file of another model is refused says nothing.
          const bool other = with_model && kind_ == JobKind::nemo;
          const bool open = other || leaves_open(tried);
          if (!open && (leaves_open(best) || tried.reasons.size() < best.reasons.size()))
            best = tried;
        }
    return best;
  }

 private:
  static TriedRecipe read(TriedRecipe tried, bool with_options) {
    tried.read = true;
    tried.with_options = with_options;
    return tried;
  }

  enum class Batch : std::uint8_t { none, sizes, with_format };
  void give(bool model, Batch batch, int gpus) {
    // Megatron-LM's flags describe the model, but for its vocabulary.
    const bool flags = job_.flags.empty() && kind_ == JobKind::megatron;
    job_.model = model && !flags ? fallback_.model : "";
    job_.changes.clear();
    if (model && flags) job_.changes.emplace_back("vocab-size=128256");
    job_.known.gpus = gpus;
    job_.known.micro_batch = job_.known.accumulation_steps = batch == Batch::none ? 0 : 1;
    if (batch == Batch::with_format)
      job_.known.precision = DType::bf16;
    else
      job_.known.precision.reset();
  }

  // Refused for an option that is missing, or that the file says itself.
  static bool leaves_open(const TriedRecipe& tried) {
    return std::ranges::any_of(tried.reasons, [](const std::string& reason) {
      return reason.find("--model") != std::string::npos ||
             reason.find("--gpus") != std::string::npos ||
             reason.find("the model has no experts") != std::string::npos ||
             reason.find("not in this file") != std::string::npos ||
             reason.find(" says N") != std::string::npos;
    });
  }

  JobKind kind_;
  JobFile job_;
  const Fallback& fallback_;
};

// The functions of a file of Megatron-Bridge that make a configuration.
std::vector<std::string> recipes_of(const std::string& path, JobKind kind) {
  if (kind != JobKind::nemo || !path.ends_with(".py")) return {""};
  return recipe_names(path);
}

std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto at =
           fs::recursive_directory_iterator{folder, fs::directory_options::skip_permission_denied,
                                            error};
       at != fs::recursive_directory_iterator{}; at.increment(error)) {
    if (error) break;
    if (at->path().filename().string().starts_with('.')) {
      if (at->is_directory(error)) at.disable_recursion_pending();
      continue;
    }
    const std::string name = at->path().filename().string();
    const bool fits = std::ranges::any_of(
        endings, [&](std::string_view ending) { return name.ends_with(ending); });
    if (fits && at->is_regular_file(error) && at->file_size(error) <= most_bytes)
      files.push_back(at->path());
  }
  std::ranges::sort(files);
  return files;
}

struct Count {
  int all = 0, clean = 0, remarked = 0, options = 0, refused = 0;
};

std::string counts_text(const TriedRecipes& tried) {
  std::map<std::string_view, Count> counts;
  for (const TriedRecipe& one : tried.recipes) {
    Count& count = counts[word(one.kind)];
    ++count.all;
    count.options += one.read && one.with_options ? 1 : 0;
    ++(!one.read ? count.refused : one.reasons.empty() ? count.clean : count.remarked);
  }
  std::string text = fmt::format("{:<12}{:>8}{:>16}{:>14}{:>14}{:>10}\n", "framework", "recipes",
                                 "without remark", "with remarks", "of these with", "refused");
  text += fmt::format("{:<12}{:>8}{:>16}{:>14}{:>14}{:>10}\n", "", "", "", "", "options", "");
  for (const auto& [name, count] : counts)
    text += fmt::format("{:<12}{:>8}{:>16}{:>14}{:>14}{:>10}\n", name, count.all, count.clean,
                        count.remarked, count.options, count.refused);
  return text;
}

std::string reasons_text(const TriedRecipes& tried, bool read, std::size_t most) {
  std::map<std::string, int> counts;
  for (const TriedRecipe& one : tried.recipes)
    if (one.read == read)
      for (const std::string& reason : one.reasons)
        ++counts[fmt::format("{}: {}", word(one.kind), reason)];
  std::vector<std::pair<std::string, int>> sorted{counts.begin(), counts.end()};
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i)
    text += fmt::format("{:>6}  {}\n", sorted[i].second, sorted[i].first);
  if (sorted.size() > most) text += fmt::format("        ... and {} more\n", sorted.size() - most);
  return text;
}

std::string unread_text(const TriedRecipes& tried) {
  if (tried.unread.empty()) return {};
  std::map<std::string_view, std::vector<std::string_view>> files;
  for (const UnreadJob& job : tried.unread)
    files[job.kind].push_back(job.file);
  std::string text = "\nNot read\n";
  for (const auto& [kind, names] : files) {
    text += fmt::format("{:>6}  {}\n", names.size(), kind);
    for (const std::string_view name : names)
      text += fmt::format("        {}\n", name);
  }
  return text;
}

bool starts_training(const ForeignFormat& format) {
  return format.use == ForeignUse::job || format.use == ForeignUse::any_job;
}

std::string list_text(const TriedRecipes& tried) {
  std::string text;
  for (const TriedRecipe& one : tried.recipes) {
    const char* verdict = !one.read ? "refused" : one.reasons.empty() ? "read" : "remarks";
    text += fmt::format("{:<8}{:<11}{}{}\n", verdict, word(one.kind), one.file,
                        one.recipe.empty() ? "" : " " + one.recipe);
    for (const std::string& reason : one.reasons)
      text += fmt::format("        {}\n", reason);
  }
  return text;
}

}  // namespace

TriedRecipes try_recipes(const std::string& folder, const Fallback& fallback) {
  if (!fs::is_directory(folder)) throw InputError{{folder, 0, 0}, "is no folder"};
  TriedRecipes tried;
  for (const fs::path& path : files_below(folder)) {
    ++tried.files;
    const std::string text = text_of(path);
    const std::string file = fs::relative(path, folder).string();
    const std::optional<JobKind> kind = job_kind_of(path.string(), text);
    if (!kind) {
      const ForeignFormat* format = foreign_format_of(text, true);
      if (format && starts_training(*format))
        tried.unread.push_back({file, std::string{format->name}});
      continue;
    }
    for (const std::string& recipe : recipes_of(path.string(), *kind)) {
      JobFile job;
      job.file = path.string();
      job.recipe = recipe;
      TriedRecipe one;
      one.file = file;
      one.recipe = recipe;
      one.kind = *kind;
      tried.recipes.push_back(Trial{*kind, std::move(job), fallback}.run(std::move(one)));
    }
  }
  return tried;
}

std::string tried_text(const TriedRecipes& tried, std::size_t most, bool list) {
  std::string text = fmt::format("{} files, {} recipes, {} jobs that are not read\n", tried.files,
                                 tried.recipes.size(), tried.unread.size());
  if (!tried.recipes.empty()) text += '\n' + counts_text(tried);
  text += unread_text(tried);
  const std::string refused = reasons_text(tried, false, most);
  const std::string remarks = reasons_text(tried, true, most);
  if (!refused.empty()) text += "\nRefused for\n" + refused;
  if (!remarks.empty()) text += "\nRemarks\n" + remarks;
  if (list && !tried.recipes.empty()) text += "\nRecipes\n" + list_text(tried);
  return text;
}

}  // namespace sim

#include "sim/scores/mlperf/submissions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/config/input_log.hpp"
#include "sim/interop/job_file.hpp"
#include "sim/interop/megatron/mlperf.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

// As the folders of v4.1 to v6.0 are called, without '_' and '-'.
constexpr std::array<std::string_view, 6> language_models{
    "gpt3", "llama270blora", "llama318b", "llama31405b", "gptoss20b", "deepseekv3671b"};

std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

bool is_language_model(std::string_view benchmark) {
  return std::ranges::find(language_models, letters_of(benchmark)) != language_models.end();
}

std::vector<fs::path> sorted(auto entries, const auto& wanted) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : entries)
    if (wanted(entry)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}
std::vector<fs::path> folders_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return {};
  return sorted(fs::directory_iterator{folder}, [](const auto& entry) {
    return entry.is_directory() && !entry.path().filename().string().starts_with('.');
  });
}
std::vector<fs::path> files_below_folder(const fs::path& folder, std::string_view ending) {
  if (!fs::is_directory(folder)) return {};
  return sorted(fs::recursive_directory_iterator{folder}, [&](const auto& entry) {
    return entry.is_regular_file() && entry.path().filename().string().ends_with(ending);
  });
}

// "8", 8.
int count_at(const nlohmann::json& system, const char* key) {
  if (!system.contains(key)) return 0;
  const nlohmann::json& value = system[key];
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  int count = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 || count > 100'000) break;
    count = 10 * count + (c - '0');
  }
  return count;
}

// A system as systems/NAME.json has it.
struct SystemFacts {
  int nodes = 0, per_node = 0;
  std::string accelerator, problem;
};
SystemFacts system_facts(const fs::path& file) {
  SystemFacts facts;
  if (!fs::is_regular_file(file)) {
    facts.problem = fmt::format("systems/{} is missing", file.filename().string());
    return facts;
  }
  const auto json = nlohmann::json::parse(read_input(file.string()), nullptr, false);
  if (!json.is_object()) {
    facts.problem = fmt::format("systems/{} is no JSON object", file.filename().string());
    return facts;
  }
  facts.nodes = count_at(json, "number_of_nodes");
  facts.per_node = count_at(json, "accelerators_per_node");
  if (json.contains("accelerator_model_name") && json["accelerator_model_name"].is_string())
    facts.accelerator = json["accelerator_model_name"].get<std::string>();
  if (facts.nodes < 1 || facts.per_node < 1)
    facts.problem = fmt::format(
        "systems/{}: number_of_nodes and accelerators_per_node are missing or no numbers",
        file.filename().string());
  else if (cluster_of_mlperf(facts.accelerator).empty())
    facts.problem = fmt::format("accelerator_model_name is '{}', of which no machine is shipped",
                                facts.accelerator.substr(0, 80));
  return facts;
}

// A file of the benchmark as a job on that machine.
struct Candidate {
  fs::path file;
  std::string digest;
  std::optional<Scenario> job{};
  std::string content{};  // of the job, without its name and the notes
  std::string refused{};
};

std::string content_of(const std::string& text) {
  const std::size_t begin = text.find("\nmodel:"), end = text.find("\nnotes:");
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

// The file that a job sources and that is not there, but for mount points: what it sets is not
// known. Empty: none.
std::string missing_source(const ImportedJob& job) {
  for (const Note& note : job.notes)
    if (note.what.starts_with("sourced on line") && note.key.find("mount") == std::string::npos)
      return note.key;
  return {};
}

// Nothing: it is the job of another system, or none.
std::optional<Candidate> candidate_of(const fs::path& file, const std::string& cluster, int gpus) {
  const std::string named = cluster_of_mlperf(file.filename().string());
  if (!named.empty() && named != cluster) return std::nullopt;
  for (const std::string_view part : {"common", "mounts"})  // that jobs source
    if (file.filename().string().find(part) != std::string::npos) return std::nullopt;
  Candidate candidate{.file = file, .digest = {}};
  JobFile job;
  job.file = file.string();
  job.cluster = cluster;
  const InputLog log;
  try {
    const ImportedJob imported = import_job(JobKind::mlperf, job);
    if (imported.scenario.layout.world_size() != gpus) return std::nullopt;
    if (const std::string missing = missing_source(imported); !missing.empty())
      throw InputError{{file.string(), 0, 0}, missing + ", which it sources, is not beside it"};
    // As 'stepcast import' writes it and 'stepcast simulate' reads it.
    const std::string text = imported_yaml(imported, job, fs::current_path().string());
    candidate.job = load_scenario(
        ScenarioSources::of_text(text, (fs::current_path() / "imported.yaml").string(), {}));
    candidate.content = content_of(text);
  } catch (const InputError& error) {
    candidate.refused = fmt::format("{}: {}", file.filename().string(), error.problems()[0].what);
  }
  std::string bytes;
  for (const InputFile& input : log.files())
    bytes += input.digest;
  candidate.digest = digest_of(bytes);
  return candidate;
}

// NVIDIA's README-SYSTEM.md names the file that was run.
bool names_config(const std::string& readme, const fs::path& config) {
  return readme.find(config.filename().string()) != std::string::npos;
}

class Chooser {
 public:
  Chooser(RoundSubmission& submission, const fs::path& root)
      : submission_{submission}, root_{root} {}

  void choose() {
    const fs::path home = root_ / submission_.submitter;
    const SystemFacts facts = system_facts(home / "systems" / (submission_.system + ".json"));
    submission_.gpus = facts.nodes * facts.per_node;
    if (!facts.problem.empty()) return refuse(facts.problem);
    submission_.cluster = cluster_of_mlperf(facts.accelerator);
    for (const char* name : {"benchmarks", "benchmark"})  // some have it without the s
      for (const fs::path& folder : folders_in(home / name))
        if (letters_of(folder.filename().string()) == letters_of(submission_.benchmark))
          read_folder(folder);
    if (candidates_.empty())
      return refuse(fmt::format("no config_*.sh of the benchmark is for {} GPUs of {}",
                                submission_.gpus, submission_.cluster));
    take(narrowed());
  }

 private:
  void refuse(std::string why) { submission_.refused = std::move(why); }

  void read_folder(const fs::path& folder) {
    for (const fs::path& file : files_below_folder(folder, ".sh"))
      if (file.filename().string().starts_with("config"))
        if (auto one = candidate_of(file, submission_.cluster, submission_.gpus))
          candidates_.push_back(std::move(*one));
    for (const fs::path& file :
         files_below_folder(folder, fmt::format("README-{}.md", submission_.system)))
      readmes_ += read_input(file.string());
  }

  // The files that the system's README names, else those whose path has its name (without the
  // "2x" of its nodes), else all; of those that can be read, if any.
  std::vector<Candidate*> narrowed() {
    std::vector<Candidate*> all;
    for (Candidate& one : candidates_)
      all.push_back(&one);
    keep(all, [&](const Candidate& one) { return names_config(readmes_, one.file); });
    const std::size_t times = submission_.system.find_first_not_of("0123456789");
    const bool counted =
        times > 0 && times != std::string::npos && submission_.system[times] == 'x';
    const std::string name = counted ? submission_.system.substr(times + 1) : submission_.system;
    keep(all,
         [&](const Candidate& one) { return one.file.string().find(name) != std::string::npos; });
    keep(all, [](const Candidate& one) { return one.job.has_value(); });
    return all;
  }
  static void keep(std::vector<Candidate*>& some, const auto& wanted) {
    std::vector<Candidate*> kept;
    for (Candidate* one : some)
      if (wanted(*one)) kept.push_back(one);
    if (!kept.empty()) some = std::move(kept);
  }

  void take(const std::vector<Candidate*>& some) {
    Candidate& first = *some.front();
    if (!first.job) return refuse(first.refused);
    std::vector<std::string> names{first.file.filename().string()};
    for (const Candidate* one : some)
      if (one->content != first.content) names.push_back(one->file.filename().string());
    if (names.size() > 1)
      return refuse(
          fmt::format("{} different configurations fit: {}", names.size(), fmt::join(names, ", ")));
    submission_.config = fs::relative(first.file, root_).string();
    submission_.digest = first.digest;
    submission_.job = std::move(first.job);
  }

  RoundSubmission& submission_;
  const fs::path& root_;
  std::vector<Candidate> candidates_;
  std::string readmes_;
};

// The pairs of a submitter: what the results name, or all.
std::vector<RoundSubmission> pairs_of(const fs::path& home) {
  std::vector<RoundSubmission> pairs;
  const auto add = [&](const std::string& system, const std::string& benchmark) {
    if (is_language_model(benchmark))
      pairs.push_back({.submitter = home.filename().string(),
                       .system = system,
                       .benchmark = benchmark,
                       .config = {},
                       .cluster = {},
                       .digest = {}});
  };
  for (const fs::path& system : folders_in(home / "results"))
    for (const fs::path& benchmark : folders_in(system))
      add(system.filename().string(), benchmark.filename().string());
  if (fs::is_directory(home / "results")) return pairs;
  for (const fs::path& system : files_below_folder(home / "systems", ".json"))
    for (const fs::path& benchmark : folders_in(home / "benchmarks"))
      add(system.stem().string(), benchmark.filename().string());
  return pairs;
}

}  // namespace

std::vector<RoundSubmission> submissions_of(const std::string& folder,
                                            const std::vector<std::string>& submitters) {
  const fs::path root{folder};
  if (!fs::is_directory(root)) throw InputError{{folder, 0, 0}, "is no folder"};
  std::vector<RoundSubmission> all;
  for (const fs::path& home : folders_in(root)) {
    const std::string name = home.filename().string();
    if (!submitters.empty() && std::ranges::find(submitters, name) == submitters.end()) continue;
    if (!fs::is_directory(home / "systems")) continue;
    for (RoundSubmission& one : pairs_of(home)) {
      Chooser{one, root}.choose();
      all.push_back(std::move(one));
    }
  }
  if (all.empty())
    throw InputError{{folder, 0, 0},
                     "has no language model of MLPerf Training; expected: "
                     "SUBMITTER/{benchmarks,results,systems}, as in training_results_v5.1"};
  return all;
}

std::vector<std::string> logs_of(const std::string& folder, const std::string& submitter,
                                 const std::string& system, const std::string& benchmark) {
  const fs::path results = fs::path{folder} / submitter / "results" / system / benchmark;
  std::vector<std::string> logs;
  for (const fs::path& file : files_below_folder(results, ".txt"))
    if (file.filename().string().starts_with("result_")) logs.push_back(file.string());
  return logs;
}

}  // namespace sim

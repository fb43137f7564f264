#include "sim/distribute/job_key.hpp"

#include <fmt/format.h>

namespace sim {
namespace {

std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string made = "'";
  for (const char c : word)
    made += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return made + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += fmt::format("{}{}", text.empty() ? "" : " ", quoted(word));
  return text;
}

std::string files_difference(const std::vector<InputFile>& recorded,
                             const std::vector<InputFile>& asked) {
  for (std::size_t i = 0; i < recorded.size() && i < asked.size(); ++i) {
    if (recorded[i].digest == asked[i].digest) continue;
    if (recorded[i].path == asked[i].path)
      return fmt::format("{} has changed since they were made (its digest was {}, is {})",
                         asked[i].path, recorded[i].digest, asked[i].digest);
    return fmt::format("they were made with {} (digest {}), not with {} (digest {})",
                       recorded[i].path, recorded[i].digest, asked[i].path, asked[i].digest);
  }
  if (recorded.size() == asked.size()) return {};
  const bool more = recorded.size() > asked.size();
  const InputFile& file = more ? recorded[asked.size()] : asked[recorded.size()];
  return fmt::format("they were made {} {}", more ? "with" : "without", file.path);
}

}  // namespace

std::string difference(const JobKey& recorded, const JobKey& asked) {
  if (recorded.command != asked.command)
    return fmt::format("they are of stepcast {}, not of stepcast {}", recorded.command,
                       asked.command);
  if (recorded.version != asked.version)
    return fmt::format("they are of version {}, this is version {}", recorded.version,
                       asked.version);
  if (recorded.arguments != asked.arguments)
    return fmt::format("they were made with the arguments [{}], not with [{}]",
                       quoted(recorded.arguments), quoted(asked.arguments));
  std::string files = files_difference(recorded.files, asked.files);
  if (!files.empty() || recorded.units == asked.units) return files;
  return fmt::format("they are of {} units of work, not of {}", recorded.units, asked.units);
}

std::string command_line(const JobKey& question, const std::vector<std::string>& more) {
  std::vector<std::string> words{"stepcast", question.command};
  if (!question.scenario.empty()) words.push_back(question.scenario);
  words.insert(words.end(), question.arguments.begin(), question.arguments.end());
  words.insert(words.end(), more.begin(), more.end());
  return quoted(words);
}

std::string digest_of(const JobKey& question) {
  std::string all = fmt::format("{}\n{}\n{}\n{}\n", question.command, question.version,
                                quoted(question.arguments), question.units);
  for (const InputFile& file : question.files)
    all += file.digest + '\n';
  return digest_of(std::string_view{all});
}

}  // namespace sim

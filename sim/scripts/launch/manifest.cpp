// Sources: kubeflow/trainer, PyTorchJob and MPIJob of API v1 (pytorchReplicaSpecs, mpiReplicaSpecs:
// replicas and template) and TrainJob of v2alpha1 (spec.trainer: numNodes, numProcPerNode, command,
// args, env, resourcesPerNode); kubernetes-sigs/jobset (replicatedJobs: replicas, template); the
// core API's PodSpec (containers: command, args, env, resources.limits) and batch/v1's Job
// (parallelism). "$(NAME)" of command and args is the container's variable.
#include "sim/scripts/launch/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/config/parsers.hpp"
#include "sim/scripts/script_parsers.hpp"
#include "sim/scripts/shell/script_source.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_pods = 1 << 20;
constexpr int most_visits = 100'000;  // aliases to aliases are many values

// Calls visit(offset, line) for each line.
template <class Visit>
void for_each_text_line(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    visit(at, text.substr(at, end - at));
    at = end + 1;
  }
}

std::string_view without_indent(std::string_view line) {
  while (!line.empty() && is_shell_blank(line.front()))
    line.remove_prefix(1);
  return line;
}

// The documents of a file, each with as many empty lines in front as there are lines before it, so
// that places stay those of the file.
std::vector<std::string> documents_of(std::string_view text) {
  std::vector<std::string> documents{""};
  for_each_text_line(text, [&](std::size_t, std::string_view line) {
    const bool separates = line == "---" || line.starts_with("--- ");
    if (separates) {
      const auto lines = std::ranges::count(documents.back(), '\n');
      documents.emplace_back(static_cast<std::size_t>(lines), '\n');
    } else {
      documents.back() += line;
    }
    documents.back() += '\n';
  });
  std::erase_if(documents, [](const std::string& one) {
    return one.find_first_not_of(" \t\r\n") == std::string::npos;
  });
  return documents;
}

class Manifest {
 public:
  Manifest(const Tree& tree, ShellVariables& variables, UnwrappedJob& job)
      : file_{tree}, places_{tree.source()}, variables_{variables}, job_{job} {}

  void read(const std::string& document) {
    Tree yaml{document, file_.name()};
    parse_yaml_into(yaml);
    yaml.throw_problems();
    yaml_ = &yaml;
    if (yaml.node(yaml.root()).kind == ValueKind::object) visit(yaml.root(), 1);
    yaml_ = nullptr;
  }

  const std::vector<std::vector<ShellText>>& commands() const { return commands_; }
  const std::vector<ShellFile>& present() const { return present_; }

 private:
  const TreeNode& node(NodeIndex index) const { return yaml_->node(index); }
  std::optional<NodeIndex> child(NodeIndex object, std::string_view key) const {
    if (node(object).kind != ValueKind::object) return std::nullopt;
    const TreeEntry* entry = yaml_->find(object, key);
    return entry == nullptr ? std::nullopt : std::optional{entry->node};
  }
  bool is_text(NodeIndex index) const {
    return node(index).kind == ValueKind::plain || node(index).kind == ValueKind::quoted;
  }
  std::string_view text_at(NodeIndex index) const {
    return is_text(index) ? yaml_->text(node(index).text) : std::string_view{};
  }
  std::optional<std::int64_t> number(NodeIndex object, std::string_view key) const {
    const std::optional<NodeIndex> found = child(object, key);
    if (!found) return std::nullopt;
    const std::string_view text = text_at(*found);
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = read.ec == std::errc{} && read.ptr == text.data() + text.size();
    return whole && value >= 0 && value <= most_pods ? std::optional{value} : std::nullopt;
  }
  ShellText shell_text(NodeIndex index) const {
    ShellText text;
    text.add(text_at(index), places_.offset(node(index).place));
    return text;
  }

  // `pods`: how many there are of what lies here.
  void visit(NodeIndex index, std::int64_t pods) {
    const TreeNode& here = node(index);
    if (++visits_ > most_visits) return;
    if (here.kind == ValueKind::list)
      for (std::uint32_t slot = 0; slot < here.entry_count; ++slot)
        visit(yaml_->entry(here, slot).node, pods);
    if (here.kind != ValueKind::object) return;
    if (const auto kind = child(index, "kind"); kind && text_at(*kind) == "ConfigMap")
      return take_files(index);
    for (const char* factor : {"replicas", "parallelism", "numNodes"})
      pods = std::min(most_pods, pods * number(index, factor).value_or(1));
    if (child(index, "command") || child(index, "args")) return container(index, pods);
    for (std::uint32_t slot = 0; slot < here.entry_count; ++slot)
      visit(yaml_->entry(here, slot).node, pods);
    // Pods that start nothing themselves (the workers of an MPIJob) have GPUs, too.
    if (child(index, "resources")) count_gpus(index, pods);
  }

  void take_files(NodeIndex map) {
    const std::optional<NodeIndex> data = child(map, "data");
    if (!data || node(*data).kind != ValueKind::object) return;
    for (std::uint32_t slot = 0; slot < node(*data).entry_count; ++slot) {
      const TreeEntry& entry = yaml_->entry(node(*data), slot);
      if (is_text(entry.node))
        present_.push_back({std::string{yaml_->text(entry.key)}, shell_text(entry.node)});
    }
  }

  void container(NodeIndex index, std::int64_t pods) {
    environment(index);
    std::vector<ShellText> words;
    for (const char* key : {"command", "args"}) {
      const std::optional<NodeIndex> found = child(index, key);
      if (!found) continue;
      if (node(*found).kind == ValueKind::list) {
        for (std::uint32_t slot = 0; slot < node(*found).entry_count; ++slot)
          words.push_back(expanded(shell_text(yaml_->entry(node(*found), slot).node)));
      } else if (is_text(*found)) {  // of a Helm chart: a whole line
        for (const ShellText& word : argument_words(shell_text(*found)))
          words.push_back(expanded(word));
      }
    }
    if (!words.empty()) commands_.push_back(std::move(words));
    count_gpus(index, pods);
  }

  void environment(NodeIndex index) {
    const std::optional<NodeIndex> list = child(index, "env");
    if (!list || node(*list).kind != ValueKind::list) return;
    for (std::uint32_t slot = 0; slot < node(*list).entry_count; ++slot) {
      const NodeIndex one = yaml_->entry(node(*list), slot).node;
      const std::optional<NodeIndex> name = child(one, "name"), value = child(one, "value");
      if (!name || !value || !is_text(*value)) continue;
      const std::string_view variable = text_at(*name);
      if (variable.empty() || shell_name_length(variable) != variable.size()) continue;
      variables_.set(std::string{variable}, {{shell_text(*value)}, {}, false});
    }
  }

  // "$(NAME)" where the container sets NAME; else left to the shell, to which it is a command.
  ShellText expanded(const ShellText& word) const {
    ShellText made;
    for (std::size_t at = 0; at < word.text.size();) {
      const std::size_t end = word.text.find(')', at);
      const bool begins = word.text.compare(at, 2, "$(") == 0 && end != std::string::npos;
      const ShellVariable* variable =
          begins ? variables_.find(word.text.substr(at + 2, end - at - 2)) : nullptr;
      if (variable == nullptr || variable->values.size() != 1) {
        made.add(word.text[at], word.from[at]);
        ++at;
      } else {
        made.add(variable->values.front());
        at = end + 1;
      }
    }
    return made;
  }

  // resources.limits: {nvidia.com/gpu: 8}; of a TrainJob resourcesPerNode.
  void count_gpus(NodeIndex index, std::int64_t pods) {
    for (const char* section : {"resources", "resourcesPerNode"}) {
      const std::optional<NodeIndex> resources = child(index, section);
      if (!resources) continue;
      for (const char* which : {"limits", "requests"}) {
        const std::optional<NodeIndex> found = child(*resources, which);
        if (!found) continue;
        for (const char* name : {"nvidia.com/gpu", "amd.com/gpu"})
          if (const auto gpus = number(*found, name); gpus && *gpus > 0)
            return add_pods(pods, *gpus, *found);
      }
    }
  }
  void add_pods(std::int64_t pods, std::int64_t gpus, NodeIndex at) {
    if (job_.gpus_per_pod != 0 && job_.gpus_per_pod != gpus) {
      job_.pods = -1;  // pods of several sizes: --gpus has to say
      return;
    }
    if (job_.pods < 0) return;
    job_.pods_at = places_.offset(node(at).place);
    job_.gpus_per_pod = gpus;
    job_.pods = std::min(most_pods, job_.pods + pods);
  }

  const Tree& file_;
  Places places_;
  ShellVariables& variables_;
  UnwrappedJob& job_;
  Tree* yaml_ = nullptr;
  int visits_ = 0;
  std::vector<std::vector<ShellText>> commands_;
  std::vector<ShellFile> present_;
};

}  // namespace

bool is_manifest(std::string_view text) {
  bool versioned = false, kind = false, command = false, args = false;
  for_each_text_line(text, [&](std::size_t, std::string_view line) {
    versioned = versioned || line.starts_with("apiVersion:");
    kind = kind || line.starts_with("kind:");
    std::string_view key = without_indent(line);
    if (key.starts_with("- ")) key = without_indent(key.substr(2));
    command = command || key.starts_with("command:");
    args = args || key.starts_with("args:");
  });
  if (versioned && kind) return true;
  // Values of a chart: no line of a script looks like "args:".
  const bool flags = args && text.find("- --") != std::string_view::npos;
  return (command || flags) && !text.starts_with("#!");
}

UnwrappedJob unwrap_manifest(const Tree& tree, ShellVariables& variables, const ShellFiles& files) {
  const std::size_t braces = tree.source().find("{{");
  if (braces != std::string_view::npos)
    tree.fail(Places{tree.source()}.of(static_cast<std::uint32_t>(braces)),
              "this is a template of a Helm chart: give what 'helm template' prints of it");
  UnwrappedJob job;
  Manifest manifest{tree, variables, job};
  for (const std::string& document : documents_of(tree.source()))
    manifest.read(document);
  job.outcome = run_shell_commands(manifest.commands(), manifest.present(), variables, files);
  if (job.pods < 0) job.pods = job.gpus_per_pod = 0;
  return job;
}

}  // namespace sim

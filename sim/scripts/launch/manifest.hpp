// Jobs of Kubernetes (PyTorchJob, MPIJob, JobSet, TrainJob, Job, Pod and the like) and values of
// Helm charts: YAML that holds the words which a container runs, its environment, and how many pods
// with how many GPUs there are.
#pragma once

#include "sim/config/tree.hpp"
#include "sim/scripts/shell/shell_script.hpp"

namespace sim {

// UnwrappedJob is what a file that starts a job runs.
struct UnwrappedJob {
  ShellOutcome outcome;
  // GPUs of the pods; 0: the file does not say them, or is a script.
  std::int64_t pods = 0, gpus_per_pod = 0;
  std::uint32_t pods_at = 0;  // offset in the file
};

bool is_manifest(std::string_view text);

// `files`: that the words name, beside the file. Several documents ("---") are one job; a ConfigMap
// holds files that it mounts. Throws InputError for what is no YAML, ShellProblem for what is no
// script, both at places of `tree`'s file.
UnwrappedJob unwrap_manifest(const Tree& tree, ShellVariables& variables, const ShellFiles& files);

}  // namespace sim

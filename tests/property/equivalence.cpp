#include "tests/property/equivalence.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "real/engine/kernels/routed_layout.hpp"
#include "real/engine/trainer.hpp"
#include "real/host/host_backend.hpp"
#include "real/host/parameter_servers.hpp"
#include "sim/plan/plan.hpp"

namespace real::test {
namespace {

struct Job {
  const sim::Plan& plan;
  const sim::Model& model;
  const sim::Training& training;
  const Samples& samples;
  const TrainOptions& options;
  TrainedModel& result;
  ParameterServers* servers = nullptr;
};

// automatic: evenly.
std::optional<RouterScore> routing_of(const sim::Training& training) {
  if (training.routing == sim::TokenRouting::softmax) return RouterScore::softmax;
  if (training.routing == sim::TokenRouting::sigmoid) return RouterScore::sigmoid;
  return std::nullopt;
}

void run_rank(const Job& job, Transport& transport) {
  const BoundProgram program =
      bind(job.plan, job.model, sim::RankId{static_cast<std::uint32_t>(transport.rank())});
  const auto backend = make_host_backend({.program = &program,
                                          .transport = &transport,
                                          .training = job.training,
                                          .algorithms = job.options.algorithms,
                                          .servers = job.servers,
                                          .routing = routing_of(job.training)});
  Trainer trainer{{.program = &program,
                   .backend = backend.get(),
                   .transport = &transport,
                   .samples = &job.samples,
                   .training = job.training}};
  if (job.options.resume.empty()) {
    trainer.start();
  } else {
    trainer.resume(job.options.resume);
  }
  const bool alone = job.plan.layout.updates_on_servers();
  std::vector<StepResult> steps;
  while (trainer.next_step() < job.training.steps)
    steps.push_back(alone ? trainer.step_alone() : trainer.step(false));
  if (alone) steps = trainer.agree_on(steps);
  for (const StepResult& step : steps) {
    if (transport.rank() != 0) break;
    job.result.losses.push_back(step.loss);
    job.result.norms.push_back(step.gradient_norm);
  }
  if (!job.options.save.empty()) trainer.save(job.options.save);
  std::vector<StepLoads> loads = trainer.expert_loads();
  if (transport.rank() == 0) job.result.expert_loads = std::move(loads);
  TrainedModel& to = job.result;
  // Each worker has parameters of its own.
  if (alone && transport.rank() >= job.plan.layout.worker_gpus()) return;
  collect(program, to.parameters, StateKind::master, *backend, to.weights);
  if (alone) return;
  collect(program, to.parameters, StateKind::first_moment, *backend, to.first_moments);
  collect(program, to.parameters, StateKind::second_moment, *backend, to.second_moments);
}

}  // namespace

TrainedModel train_on_host(const sim::Model& model, const sim::Layout& layout,
                           const sim::Training& training, const Samples& samples,
                           const TrainOptions& options) {
  const auto problems = sim::layout_problems(layout, model);
  if (!problems.empty()) throw std::runtime_error{problems.front().what};
  const bool by_scores = routing_of(training).has_value();
  const sim::Plan plan =
      sim::make_plan(model, by_scores ? with_room_for_all(layout, model) : layout);
  for (const auto& refused : {engine_problems(plan, model, by_scores), host_problems(plan, model)})
    if (!refused.empty()) throw std::runtime_error{refused.front()};
  TrainedModel result;
  result.parameters = parameters_of(model, layout);
  result.weights = result.first_moments = result.second_moments = zero_tensors(result.parameters);
  std::optional<ParameterServers> servers;
  if (layout.has_servers()) servers.emplace(plan, training);
  const Job job{plan, model, training, samples, options, result, servers ? &*servers : nullptr};
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& transport : make_local_world(plan.world_size())) {
    threads.emplace_back([&, own = std::move(transport)] {
      try {
        run_rank(job, *own);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock{mutex};
          if (!first) first = std::current_exception();
        }
        own->abort(own->rank(), error.what());
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (first) std::rethrow_exception(first);
  if (servers) result.staleness = servers->staleness();
  return result;
}

Difference largest_difference(const std::vector<Parameter>& parameters, const GlobalTensors& a,
                              const GlobalTensors& b, double least) {
  Difference worst;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    double difference = 0, size = least;
    for (std::size_t i = 0; i < b[p].size(); ++i) {
      difference = std::max(difference, std::fabs(double{a[p][i]} - double{b[p][i]}));
      size = std::max(size, std::fabs(double{b[p][i]}));
    }
    const double relative = difference == 0 ? 0 : difference / size;
    if (!(relative <= worst.relative)) worst = {relative, parameters[p].name};
  }
  return worst;
}

}  // namespace real::test

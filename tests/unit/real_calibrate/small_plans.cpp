#include "tests/unit/real_calibrate/small_plans.hpp"

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "sim/model/transformer.hpp"

namespace calibrate_test {

void on_all_ranks(int size, const std::function<void(real::Transport&)>& body) {
  std::vector<std::unique_ptr<real::Transport>> world = real::make_local_world(size);
  std::vector<std::exception_ptr> failures(world.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < world.size(); ++rank)
    threads.emplace_back([&body, &transport = world[rank], &failure = failures[rank]] {
      try {
        body(*transport);
      } catch (...) {
        failure = std::current_exception();
        transport.reset();  // the others do not wait for it
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

real::GridProgram two_ranks(int tensor, int pipeline, sim::DType dtype) {
  sim::TransformerShape shape;
  shape.name = "two";
  shape.layers = 2;
  shape.hidden = 32;
  shape.head_dim = 16;
  shape.heads = shape.kv_heads = 2;
  shape.feed_forward = 64;
  shape.vocabulary = 64;
  shape.max_sequence = 16;
  sim::Layout layout;
  layout.tensor_parallel = tensor;
  layout.pipeline_parallel = pipeline;
  layout.data_parallel = 2 / (tensor * pipeline);
  layout.sequence_length = 16;
  layout.global_batch = 4;
  layout.compute_dtype = layout.activation_dtype = dtype;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  layout.master_weights = dtype != sim::DType::fp32;
  real::GridProgram made{.model = sim::build_transformer(shape), .plan = {}};
  made.plan = sim::make_plan(made.model, layout);
  return made;
}

}  // namespace calibrate_test

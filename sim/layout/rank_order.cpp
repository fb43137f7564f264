#include "sim/layout/rank_order.hpp"

namespace sim {

std::vector<Dimension> wide_dimensions(const Layout& layout, std::vector<Dimension> order) {
  std::erase_if(order, [&](Dimension dimension) {
    switch (dimension) {
      case Dimension::tensor:
        return layout.tensor_parallel == 1;
      case Dimension::context:
        return layout.context_parallel == 1;
      case Dimension::data:
        return layout.data_parallel == 1;
      case Dimension::pipeline:
        return layout.pipeline_parallel == 1;
    }
    return false;
  });
  return order;
}

}  // namespace sim

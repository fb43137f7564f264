// A program that knows nothing of Stepcast but its installed package: which micro-batch is fastest?
#include <iostream>
#include <stepcast/stepcast.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    sim::Forecaster forecaster;
    for (const char* micro_batch : {"1", "2", "4"}) {
      const sim::Scenario scenario =
          sim::load_scenario(argv[1], {std::string{"layout.micro_batch="} + micro_batch});
      const sim::Forecast step = forecaster.run(scenario);
      std::cout << micro_batch << ' ' << step.report.step_time.count() << ' '
                << (step.report.fits() ? "fits" : "does not fit") << '\n';
    }
  } catch (const sim::InputError& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
  return 0;
}

// Golden numbers of an optimizer: steps over given gradients, one file for each optimizer
// (tests/golden).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <support/golden/golden_tensor.hpp>

namespace test {

/// Repeats the steps of a golden file, beginning with its "param" and with states of zero. For
/// every step, counted from 0, update(values, states, gradients, lr, step) makes the step, and
/// compare(name, values, expected) gets the weights ("params") and each of `states`. `suffix`
/// selects the golden run: "" in fp32, "64" in fp64.
template <class A, class Update, class Compare>
void follow_golden(std::string const& name, std::string const& suffix,
                   std::vector<std::string> const& states, Update&& update, Compare&& compare) {
  parallel::checkpoint::safetensors_file const file(golden_folder() / name);
  auto values = golden_tensor<A>(file, "param");
  auto const gradients = golden_tensor<A>(file, "grads");
  auto const lr = golden_tensor<double>(file, "lr");
  std::vector<std::vector<A>> state_values(states.size(), std::vector<A>(values.size()));
  for (std::size_t step = 0; step < lr.size(); ++step) {
    auto const row = [&](std::vector<A> const& rows) {
      auto const begin = rows.begin() + static_cast<std::ptrdiff_t>(step * values.size());
      return std::vector<A>(begin, begin + std::ssize(values));
    };
    update(values, state_values, row(gradients), lr[step], step);
    compare("params", values, row(golden_tensor<A>(file, "params" + suffix)));
    for (std::size_t i = 0; i < states.size(); ++i)
      compare(states[i], state_values[i], row(golden_tensor<A>(file, states[i] + suffix)));
  }
}

}  // namespace test

// calibrate: the rates of a processor from operations that were measured on it.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/cluster/operation_work.hpp>
#include <parallel/cluster/processor.hpp>
#include <parallel/cluster/product_rates.hpp>

namespace parallel::cluster {

/// An operation and the seconds that it took, without the gap before it.
struct measured_operation {
  operation_work work = {};
  double seconds = 0;
};

namespace detail {

/// Work and seconds of measured operations that are alike, summed.
struct measured_sum {
  double work = 0;
  double seconds = 0;
  double calls = 0;

  void add(double amount, double time) {
    work += amount;
    seconds += time;
    ++calls;
  }
  [[nodiscard]] double rate() const { return work / seconds; }
};

/// The rates of products with those of measured shapes, which replace earlier ones of these shapes.
[[nodiscard]] inline product_rates with_measured(
    product_rates const& earlier, std::map<product_shape, measured_sum> const& measured) {
  auto points = earlier.points();
  std::erase_if(points, [&](measured_product const& p) { return measured.contains(p.shape); });
  for (auto const& [shape, sum] : measured) points.push_back({shape, sum.rate()});
  double largest = earlier.large_rate();
  for (auto const& p : points) largest = std::max(largest, p.rate);
  return product_rates(largest, std::max(1.0, earlier.units()), std::move(points));
}

}  // namespace detail

/// Adds to a processor the rates of measured operations: products and attention by shape, other
/// operations by their bytes. Operations of equal shape count together.
inline void calibrate(processor& device, std::span<measured_operation const> measured) {
  using sums = std::map<double, detail::measured_sum>;
  std::map<int, std::map<product_shape, detail::measured_sum>> products;
  std::map<std::pair<std::pair<int, int>, bool>, sums> attention;  // bytes, width, backward
  std::map<std::string, sums> elementwise;
  for (auto const& [work, seconds] : measured) {
    if (seconds <= 0) continue;
    auto const bytes = static_cast<int>(work.element_bytes);
    bool const backward = work.kind == operation_kind::attention_backward;
    switch (work.kind) {
      case operation_kind::product:
        products[bytes][{work.rows, work.columns, work.depth}].add(work.flops, seconds);
        break;
      case operation_kind::attention_forward:
      case operation_kind::attention_backward:
        attention[{{bytes, static_cast<int>(work.depth)}, backward}][keys_of(work)].add(work.flops,
                                                                                        seconds);
        break;
      case operation_kind::memory:
        if (work.bytes > 0)
          elementwise[std::string(work.name)][work.bytes].add(work.bytes, seconds);
    }
  }
  for (auto const& [bytes, shapes] : products)
    device.products[bytes] = detail::with_measured(device.products[bytes], shapes);
  for (auto const& [key, by_keys] : attention) {
    auto& rates = device.attention[key.first.first][key.first.second];
    for (auto const& [keys, sum] : by_keys)
      (key.second ? rates.backward : rates.forward).set(keys, sum.rate());
  }
  for (auto const& [name, by_bytes] : elementwise)
    for (auto const& [bytes, sum] : by_bytes) device.operations[name].set(bytes, sum.rate());
}

}  // namespace parallel::cluster

#include <mpt/report/curve.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpt::report {

namespace {

constexpr auto no_index = std::numeric_limits<std::size_t>::max();

/// The indices in [begin, end) that represent the range, ascending.
std::vector<std::size_t> representatives(std::vector<double> const& values, std::size_t begin,
                                         std::size_t end) {
  std::size_t smallest = no_index, largest = no_index, non_finite = no_index;
  for (auto i = begin; i < end; ++i) {
    if (!std::isfinite(values[i])) {
      non_finite = std::min(non_finite, i);
      continue;
    }
    if (smallest == no_index || values[i] < values[smallest]) smallest = i;
    if (largest == no_index || values[i] > values[largest]) largest = i;
  }
  std::vector<std::size_t> out;
  for (auto const i : {smallest, largest, non_finite})
    if (i != no_index && std::ranges::find(out, i) == out.end()) out.push_back(i);
  std::ranges::sort(out);
  return out;
}

}  // namespace

void curve::add(std::int64_t batch, double value) {
  batches.push_back(batch);
  values.push_back(value);
}

void curve::remove_from(std::int64_t batch) {
  auto const size_before =
      static_cast<std::size_t>(std::ranges::lower_bound(batches, batch) - batches.begin());
  batches.resize(size_before);
  values.resize(size_before);
}

curve decimate(curve const& points, std::size_t limit) {
  auto const size = points.size();
  if (size <= std::max<std::size_t>(limit, 4)) return points;
  auto const parts = std::max<std::size_t>(1, (limit - 2) / 2);
  curve out;
  auto const add = [&](std::size_t i) { out.add(points.batches[i], points.values[i]); };
  add(0);
  for (std::size_t part = 0; part < parts; ++part) {
    auto const begin = 1 + part * (size - 2) / parts;
    auto const end = 1 + (part + 1) * (size - 2) / parts;
    for (auto const i : representatives(points.values, begin, end)) add(i);
  }
  add(size - 1);
  return out;
}

value_range summarize(curve const& points, std::int64_t first, std::int64_t last) {
  value_range out{.smallest = std::numeric_limits<double>::infinity(),
                  .largest = -std::numeric_limits<double>::infinity()};
  double sum = 0;
  auto const begin = std::ranges::lower_bound(points.batches, first) - points.batches.begin();
  for (auto i = static_cast<std::size_t>(begin); i < points.size() && points.batches[i] <= last;
       ++i) {
    auto const value = points.values[i];
    if (!std::isfinite(value)) {
      out.has_non_finite = true;
      continue;
    }
    ++out.count;
    sum += value;
    out.smallest = std::min(out.smallest, value);
    out.largest = std::max(out.largest, value);
  }
  if (out.count > 0) out.mean = sum / static_cast<double>(out.count);
  return out;
}

}  // namespace mpt::report

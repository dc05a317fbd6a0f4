// processor: one device of a cluster, by the rates at which it computes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <parallel/cluster/operation_work.hpp>
#include <parallel/cluster/product_rates.hpp>
#include <parallel/cluster/rate_curve.hpp>
#include <parallel/core/error.hpp>

namespace parallel::cluster {

/// Operations a second of fused attention for one width of heads, by the number of keys that a
/// query sees on average.
struct attention_rates {
  rate_curve forward;
  rate_curve backward;
};

struct processor {
  std::string name = {};
  std::uint64_t memory = 0;  ///< bytes
  double peak = 0;  ///< dense operations a second in bf16 by the data sheet, for utilisation
  std::map<int, product_rates> products = {};  ///< by bytes of an element: 1 fp8, 2 bf16, 4 float
  /// By bytes of an element, then by the width of a head; a width between two takes the lower
  /// one's rates.
  std::map<int, std::map<int, attention_rates>> attention = {};
  double memory_rate = 0;  ///< bytes a second that an operation of elements reads and writes
  /// By the names of operations that were measured: bytes a second, by the bytes of a call
  std::map<std::string, rate_curve, std::less<>> operations = {};
  double gap = 0;        ///< seconds between two operations
  double host_rate = 0;  ///< bytes a second from or to the host's memory

  /// Seconds of one operation, with the gap before it. The longest of its arithmetic and its bytes.
  [[nodiscard]] double seconds(operation_work const& work) const {
    double const memory_seconds = work.bytes / memory_rate;
    switch (work.kind) {
      case operation_kind::memory: return gap + moving_seconds(work.name, work.bytes);
      case operation_kind::product:
        return gap + std::max(memory_seconds,
                              work.flops / products_for(work.element_bytes)
                                               .rate({work.rows, work.columns, work.depth}));
      case operation_kind::attention_forward:
      case operation_kind::attention_backward:
        return gap + std::max(memory_seconds, work.flops / attention_rate(work));
    }
    return 0;
  }

  /// Seconds in which an operation on elements reads and writes its bytes.
  [[nodiscard]] double moving_seconds(std::string_view operation, double bytes) const {
    auto const found = operations.find(operation);
    return bytes / (found == operations.end() ? memory_rate : found->second.rate(bytes));
  }

  /// The rates of products of elements of a size; those of the nearest larger size if it has none.
  [[nodiscard]] product_rates const& products_for(double element_bytes) const {
    auto const found = products.lower_bound(static_cast<int>(element_bytes));
    require(found != products.end(), "cluster: the rate of products of ", element_bytes,
            " bytes an element on ", name, " is not known; state it as products");
    return found->second;
  }

 private:
  [[nodiscard]] double attention_rate(operation_work const& work) const {
    bool const forward = work.kind == operation_kind::attention_forward;
    auto const widths = attention.find(static_cast<int>(work.element_bytes));
    if (widths == attention.end()) return products_for(work.element_bytes).large_rate() / 2;
    auto found = widths->second.upper_bound(static_cast<int>(work.depth));
    if (found != widths->second.begin()) --found;
    // tensor cores read 16 bytes at a time; heads whose rows begin elsewhere do without them
    double const share = work.element_bytes > 2 || std::fmod(work.depth, 8) == 0 ? 1 : 1.0 / 8;
    return share * (forward ? found->second.forward : found->second.backward).rate(keys_of(work));
  }
};

}  // namespace parallel::cluster

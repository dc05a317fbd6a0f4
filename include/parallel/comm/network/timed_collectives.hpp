// timed_collectives: measures how long collectives take over a communicator, and counts wrong
// values in their results.
//
// Used to check a network before a run, and for the table that NVIDIA's nccl-tests print
// (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md), whose definitions of sizes and
// bandwidths are used here so that the two can be compared.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/core/clock.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// One call. `bytes` is the size of the whole data (all ranks' shards of a sharding collective).
/// For messages (`send`), each rank sends to the next rank and receives from the previous one.
struct collective_call {
  operation_kind kind = operation_kind::all_reduce;
  std::size_t bytes = 0;
  bool in_place = false;  ///< the shards are parts of the whole
  int root = 0;           ///< of a broadcast
};

/// The result of timing a call, the same on all ranks.
struct collective_timing {
  std::size_t count = 0;    ///< elements of one rank's shard or message
  double seconds = 0;       ///< of one call, on the slowest rank
  std::uint64_t wrong = 0;  ///< wrong elements on all ranks
};

/// Bytes over the busiest link for each byte of a call's size, with the algorithm that sends least.
/// It converts the rate of a call ("algorithm bandwidth") into the rate of the hardware ("bus
/// bandwidth").
[[nodiscard]] inline double bus_factor(operation_kind kind, int ranks) {
  auto const n = static_cast<double>(ranks);
  switch (kind) {
    case operation_kind::all_reduce: return 2 * (n - 1) / n;
    case operation_kind::reduce_scatter:
    case operation_kind::all_gather:
    case operation_kind::all_to_all: return (n - 1) / n;
    default: return 1;
  }
}

/// Times calls of up to `max_bytes` on elements T, with whole numbers whose sums are exact in T.
/// Takes twice `max_bytes` of the device's memory. All ranks make the same calls. The ranks combine
/// their results over `Control`, which may be the communicator that is timed; with another one, of
/// the same ranks, wrong elements are counted reliably even if the timed one corrupts numbers.
template <class T, device Device, communicator Comm, communicator Control = Comm>
class timed_collectives {
 public:
  timed_collectives(Device& device, Comm& comm,
                    std::size_t max_bytes) requires std::same_as<Comm, Control>
      : timed_collectives(device, comm, comm, max_bytes) {}
  timed_collectives(Device& device, Comm& comm, Control& control, std::size_t max_bytes)
      : device_(device),
        comm_(comm),
        control_(control),
        stream_(comm_options<Comm>(device)),
        second_stream_(comm_options<Comm>(device)),
        in_(exchanged(rounded(max_bytes))),
        out_(exchanged(rounded(max_bytes))),
        combined_(device.template allocate_shared<double>(1)) {
    require(static_cast<double>(comm.size()) * largest <= exact_to(),
            "timed_collectives: sums over ", comm.size(),
            " ranks are not exact in this type; use a wider one");
  }

  /// Repeats a call until `seconds` have passed, at least once, after one call whose values are
  /// checked. Returns nothing where the size is less than an element for each rank, or where the
  /// collective has no such form.
  [[nodiscard]] std::optional<collective_timing> time(collective_call const& call, double seconds) {
    if (!has_form(call.kind, call.in_place)) return std::nullopt;
    auto const count = count_of(call);
    if (count == 0) return std::nullopt;
    fill(call, count);
    auto const first = greatest(clocked(call, count, 1));
    auto const wrong =
        static_cast<std::uint64_t>(total(static_cast<double>(mistakes(call, count))));
    auto const calls = static_cast<int>(std::clamp(seconds / std::max(first, 1e-9), 1.0, 1000.0));
    return collective_timing{count, greatest(clocked(call, count, calls)) / calls, wrong};
  }

  /// Whether the collective exists with a separate output, or in place.
  [[nodiscard]] static bool has_form(operation_kind kind, bool in_place) {
    bool const has_both_forms =
        kind == operation_kind::reduce_scatter || kind == operation_kind::all_gather;
    bool const only_in_place =
        kind == operation_kind::all_reduce || kind == operation_kind::broadcast;
    return has_both_forms || only_in_place == in_place;
  }

 private:
  using request_type = typename Comm::request_type;
  static constexpr double largest = 7;  // the largest value of an element

  /// Whole numbers up to this one are exact in T.
  static double exact_to() {
    return sizeof(T) == 1 ? 255 : std::exp2(sizeof(T) == 2 ? 8 : 8 * sizeof(T) - 8);
  }

  /// Elements of a buffer that holds the shards of a call of `bytes` or less.
  [[nodiscard]] std::size_t rounded(std::size_t bytes) const {
    return bytes / sizeof(T) + static_cast<std::size_t>(comm_.size());
  }

  /// Memory of the type that a training step exchanges.
  [[nodiscard]] buffer<T> exchanged(std::size_t count) {
    auto memory = allocate_exchanged<T>(device_, count);
    registered_.push_back(register_memory(comm_, memory));
    return memory;
  }

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  [[nodiscard]] std::size_t own_rank() const { return static_cast<std::size_t>(comm_.rank()); }

  [[nodiscard]] static bool shards(operation_kind kind) {
    return kind == operation_kind::reduce_scatter || kind == operation_kind::all_gather ||
           kind == operation_kind::all_to_all;
  }

  [[nodiscard]] std::size_t count_of(collective_call const& call) const {
    return call.bytes / sizeof(T) / (shards(call.kind) ? ranks() : 1);
  }

  /// A rank's values are 16 numbers in a permuted, repeated order, so that sums over ranks take 16
  /// values only. The index among the 16 numbers of element i:
  [[nodiscard]] static std::size_t value_index(std::size_t i) {
    return static_cast<std::size_t>((i * 0x9e3779b97f4a7c15ULL) >> 60);
  }
  [[nodiscard]] static double value_of(std::size_t rank, std::size_t value_number) {
    auto const mixed = (rank * 16 + value_number + 1) * 0xbf58476d1ce4e5b9ULL;
    return static_cast<double>((mixed >> 40) % (static_cast<std::uint64_t>(largest) + 1));
  }
  using value_table = std::array<double, 16>;
  [[nodiscard]] static value_table values_of_rank(std::size_t rank) {
    value_table values;
    for (std::size_t value_number = 0; value_number < values.size(); ++value_number)
      values[value_number] = value_of(rank, value_number);
    return values;
  }

  /// The memory from which a call reads its input, and the memory that holds its result.
  [[nodiscard]] std::span<T> input(collective_call const& call, std::size_t count) const {
    auto const whole = count * (call.kind == operation_kind::all_gather ? 1 : ranks_in(call.kind));
    if (!call.in_place) return in_.span().first(whole);
    auto const first = call.kind == operation_kind::all_gather ? own_rank() * count : 0;
    return out_.span().subspan(first, whole);
  }
  [[nodiscard]] std::span<T> output(collective_call const& call, std::size_t count) const {
    if (call.kind == operation_kind::reduce_scatter)
      return out_.span().subspan(call.in_place ? own_rank() * count : 0, count);
    return out_.span().first(count * ranks_in(call.kind));
  }
  [[nodiscard]] std::size_t ranks_in(operation_kind kind) const {
    return shards(kind) ? ranks() : 1;
  }

  void fill(collective_call const& call, std::size_t count) {
    auto const values = values_of_rank(own_rank());
    for_each_chunk(
        input(call, count), [&](std::span<T> chunk, std::span<T> target, std::size_t first) {
          for (std::size_t i = 0; i < chunk.size(); ++i)
            chunk[i] = static_cast<T>(static_cast<float>(values[value_index(first + i)]));
          device_.upload(target, chunk);
        });
  }

  /// The number of wrong elements in the result.
  [[nodiscard]] std::uint64_t mistakes(collective_call const& call, std::size_t count) {
    auto const result = output(call, count);
    value_table sums{};
    for (std::size_t r = 0; r < ranks(); ++r)
      for (std::size_t value_number = 0; value_number < sums.size(); ++value_number)
        sums[value_number] += value_of(r, value_number);
    std::vector<value_table> values(ranks());
    for (std::size_t r = 0; r < ranks(); ++r) values[r] = values_of_rank(r);
    auto const expected = [&](std::size_t i) -> double {
      switch (call.kind) {
        case operation_kind::all_reduce: return sums[value_index(i)];
        case operation_kind::reduce_scatter: return sums[value_index(own_rank() * count + i)];
        case operation_kind::all_gather: return values[i / count][value_index(i % count)];
        case operation_kind::all_to_all:
          return values[i / count][value_index(own_rank() * count + i % count)];
        case operation_kind::broadcast:
          return values[static_cast<std::size_t>(call.root)][value_index(i)];
        default: return values[(own_rank() + ranks() - 1) % ranks()][value_index(i)];
      }
    };
    std::uint64_t wrong = 0;
    for_each_chunk(result, [&](std::span<T> chunk, std::span<T> source, std::size_t first) {
      device_.download(chunk, source);
      for (std::size_t i = 0; i < chunk.size(); ++i)
        if (static_cast<double>(static_cast<float>(chunk[i])) != expected(first + i)) ++wrong;
    });
    return wrong;
  }

  /// Calls f(host memory, the chunk of `whole` that it stands for, the index of its first element).
  template <class F>
  void for_each_chunk(std::span<T> whole, F&& f) {
    constexpr std::size_t max_count = 1 << 20;
    host_.resize(std::min(whole.size(), max_count));
    for (std::size_t first = 0; first < whole.size(); first += max_count) {
      auto const chunk = whole.subspan(first, std::min(max_count, whole.size() - first));
      f(std::span(host_).first(chunk.size()), chunk, first);
    }
  }

  /// The seconds from the arrival of the last rank until all of `calls` calls are done.
  [[nodiscard]] double clocked(collective_call const& call, std::size_t count, int calls) {
    std::vector<std::pair<request_type, request_type>> pending;
    pending.reserve(static_cast<std::size_t>(calls));
    comm_.barrier(stream_).wait();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) pending.push_back(start(call, count));
    for (auto& [first_request, second_request] : pending) {
      first_request.wait();
      second_request.wait();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  [[nodiscard]] auto start(collective_call const& call, std::size_t count) {
    std::span<T const> const in = input(call, count);
    std::span<T> const out = output(call, count);
    auto const single = [](request_type r) { return std::pair(std::move(r), request_type()); };
    switch (call.kind) {
      case operation_kind::all_reduce:
        return single(comm_.all_reduce(stream_, out, reduction::sum));
      case operation_kind::reduce_scatter:
        return single(comm_.reduce_scatter(stream_, out, in, reduction::sum));
      case operation_kind::all_gather: return single(comm_.all_gather(stream_, out, in));
      case operation_kind::all_to_all: return single(comm_.all_to_all(stream_, out, in));
      case operation_kind::broadcast: return single(comm_.broadcast(stream_, out, call.root));
      default: return messages(out, in);
    }
  }

  [[nodiscard]] auto messages(std::span<T> out, std::span<T const> in) {
    int const n = comm_.size(), r = comm_.rank(), next = (r + 1) % n, previous = (r + n - 1) % n;
    require(n > 1, "timed_collectives: one rank alone sends no messages");
    if constexpr (groups_messages<Comm>) {
      call_group group(comm_);
      static_cast<void>(group.send(stream_, in, next));
      static_cast<void>(group.recv(stream_, out, previous));
      return std::pair(group.end(stream_), request_type());
    } else {
      auto sent = comm_.send(stream_, in, next);
      return std::pair(std::move(sent), comm_.recv(second_stream_, out, previous));
    }
  }

  [[nodiscard]] double greatest(double x) { return combined(x, reduction::max); }
  [[nodiscard]] double total(double x) { return combined(x, reduction::sum); }
  [[nodiscard]] double combined(double x, reduction op) {
    combined_.span()[0] = x;
    if constexpr (std::same_as<Comm, Control>) {
      control_.all_reduce(stream_, combined_.span(), op).wait();
    } else {
      comm_stream<Device, Control> control_stream(comm_options<Control>(device_));
      control_.all_reduce(control_stream, combined_.span(), op).wait();
    }
    return combined_.span()[0];
  }

  using exchange_stream = comm_stream<Device, Comm>;

  Device& device_;
  Comm& comm_;
  Control& control_;
  exchange_stream stream_, second_stream_;
  std::vector<registered_memory> registered_;
  buffer<T> in_, out_;
  buffer<double> combined_;
  std::vector<T> host_;
};

}  // namespace parallel

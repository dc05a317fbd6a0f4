// timed_collectives: how long collectives take over a communicator, and how many of their values
// are wrong.
//
// For the check of a network before a run, and for the table that NVIDIA's nccl-tests print
// (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md), whose definitions of sizes and of
// bandwidths these are, so that the two can be compared.
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
#include <parallel/device/exchanged_memory.hpp>

namespace parallel {

/// One call: `bytes` are the size of what is whole (all ranks' shards of those that shard), `count`
/// the elements of what one rank gives or gets. Of messages (`send`), each rank sends to the next
/// and receives from the one before.
struct collective_call {
  operation_kind kind = operation_kind::all_reduce;
  std::size_t bytes = 0;
  bool in_place = false;  // with shards that are parts of the whole
  int root = 0;           // of a broadcast
};

/// What is said of all ranks together.
struct collective_timing {
  std::size_t count = 0;
  double seconds = 0;       // of one call, on the slowest rank
  std::uint64_t wrong = 0;  // elements, of all ranks
};

/// Bytes over the busiest link for each byte of a call's size, with the algorithm that sends least:
/// what makes the rate of a call ("algorithm bandwidth") that of the hardware ("bus bandwidth").
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

/// Times calls of up to `most_bytes` on elements T, whose whole numbers every sum has exactly.
/// Takes twice that of the device's memory. All ranks make the same calls. Over `Control` they
/// agree on what they have found, which may be the communicator that is timed; where that is
/// another, of the same ranks, what is wrong with the timed one is counted whatever it does to
/// numbers.
template <class T, device Device, communicator Comm, communicator Control = Comm>
class timed_collectives {
 public:
  timed_collectives(Device& device, Comm& comm,
                    std::size_t most_bytes) requires std::same_as<Comm, Control>
      : timed_collectives(device, comm, comm, most_bytes) {}
  timed_collectives(Device& device, Comm& comm, Control& control, std::size_t most_bytes)
      : device_(device),
        comm_(comm),
        control_(control),
        stream_(comm_options<Comm>(device)),
        back_(comm_options<Comm>(device)),
        in_(exchanged(rounded(most_bytes))),
        out_(exchanged(rounded(most_bytes))),
        agreed_(device.template allocate_shared<double>(1)) {
    require(static_cast<double>(comm.size()) * largest <= exact_to(),
            "timed_collectives: sums over ", comm.size(),
            " ranks are not exact in this type; use a wider one");
  }

  /// Of a call that is made until `seconds` have passed, once at least and after once to check its
  /// values; nothing where the size is less than an element for each rank, or the communicator has
  /// no such form.
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

  /// Whether there is a call with separate memory for what comes out, or without.
  [[nodiscard]] static bool has_form(operation_kind kind, bool in_place) {
    bool const both = kind == operation_kind::reduce_scatter || kind == operation_kind::all_gather;
    bool const only_in_place =
        kind == operation_kind::all_reduce || kind == operation_kind::broadcast;
    return both || only_in_place == in_place;
  }

 private:
  using request_type = typename Comm::request_type;
  static constexpr double largest = 7;  // of values

  /// Whole numbers up to here are exact.
  static double exact_to() {
    return sizeof(T) == 1 ? 255 : std::exp2(sizeof(T) == 2 ? 8 : 8 * sizeof(T) - 8);
  }

  /// Elements of a buffer that every shard of `bytes` or less fits.
  [[nodiscard]] std::size_t rounded(std::size_t bytes) const {
    return bytes / sizeof(T) + static_cast<std::size_t>(comm_.size());
  }

  /// Where a step's exchanges would lie.
  [[nodiscard]] buffer<T> exchanged(std::size_t count) {
    auto memory = allocate_exchanged<T>(device_, count);
    registered_.push_back(register_memory(comm_, memory));
    return memory;
  }

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm_.size()); }
  [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(comm_.rank()); }

  [[nodiscard]] static bool shards(operation_kind kind) {
    return kind == operation_kind::reduce_scatter || kind == operation_kind::all_gather ||
           kind == operation_kind::all_to_all;
  }

  [[nodiscard]] std::size_t count_of(collective_call const& call) const {
    return call.bytes / sizeof(T) / (shards(call.kind) ? ranks() : 1);
  }

  /// Rank r's values repeat 16 numbers in an order of their own, so that sums over ranks are those
  /// of 16 numbers.
  [[nodiscard]] static std::size_t place(std::size_t i) {
    return static_cast<std::size_t>((i * 0x9e3779b97f4a7c15ULL) >> 60);
  }
  [[nodiscard]] static double number(std::size_t rank, std::size_t at) {
    auto const mixed = (rank * 16 + at + 1) * 0xbf58476d1ce4e5b9ULL;
    return static_cast<double>((mixed >> 40) % (static_cast<std::uint64_t>(largest) + 1));
  }
  using numbers = std::array<double, 16>;
  [[nodiscard]] static numbers of_rank(std::size_t rank) {
    numbers all;
    for (std::size_t at = 0; at < all.size(); ++at) all[at] = number(rank, at);
    return all;
  }

  /// Where a call reads its own values, and where it leaves its result.
  [[nodiscard]] std::span<T> input(collective_call const& call, std::size_t count) const {
    auto const whole = count * (call.kind == operation_kind::all_gather ? 1 : ranks_in(call.kind));
    if (!call.in_place) return in_.span().first(whole);
    auto const at = call.kind == operation_kind::all_gather ? me() * count : 0;
    return out_.span().subspan(at, whole);
  }
  [[nodiscard]] std::span<T> output(collective_call const& call, std::size_t count) const {
    if (call.kind == operation_kind::reduce_scatter)
      return out_.span().subspan(call.in_place ? me() * count : 0, count);
    return out_.span().first(count * ranks_in(call.kind));
  }
  [[nodiscard]] std::size_t ranks_in(operation_kind kind) const {
    return shards(kind) ? ranks() : 1;
  }

  void fill(collective_call const& call, std::size_t count) {
    auto const own = of_rank(me());
    each_chunk(input(call, count), [&](std::span<T> chunk, std::span<T> to, std::size_t first) {
      for (std::size_t i = 0; i < chunk.size(); ++i)
        chunk[i] = static_cast<T>(static_cast<float>(own[place(first + i)]));
      device_.upload(to, chunk);
    });
  }

  /// Elements of the result that are not what they should be.
  [[nodiscard]] std::uint64_t mistakes(collective_call const& call, std::size_t count) {
    auto const result = output(call, count);
    numbers sums{};
    for (std::size_t r = 0; r < ranks(); ++r)
      for (std::size_t at = 0; at < sums.size(); ++at) sums[at] += number(r, at);
    std::vector<numbers> of(ranks());
    for (std::size_t r = 0; r < ranks(); ++r) of[r] = of_rank(r);
    auto const expected = [&](std::size_t i) -> double {
      switch (call.kind) {
        case operation_kind::all_reduce: return sums[place(i)];
        case operation_kind::reduce_scatter: return sums[place(me() * count + i)];
        case operation_kind::all_gather: return of[i / count][place(i % count)];
        case operation_kind::all_to_all: return of[i / count][place(me() * count + i % count)];
        case operation_kind::broadcast: return of[static_cast<std::size_t>(call.root)][place(i)];
        default: return of[(me() + ranks() - 1) % ranks()][place(i)];
      }
    };
    std::uint64_t wrong = 0;
    each_chunk(result, [&](std::span<T> chunk, std::span<T> from, std::size_t first) {
      device_.download(chunk, from);
      for (std::size_t i = 0; i < chunk.size(); ++i)
        if (static_cast<double>(static_cast<float>(chunk[i])) != expected(first + i)) ++wrong;
    });
    return wrong;
  }

  /// f(memory of the host, the part of `all` it stands for, where that begins).
  template <class F>
  void each_chunk(std::span<T> all, F&& f) {
    constexpr std::size_t most = 1 << 20;
    host_.resize(std::min(all.size(), most));
    for (std::size_t first = 0; first < all.size(); first += most) {
      auto const part = all.subspan(first, std::min(most, all.size() - first));
      f(std::span(host_).first(part.size()), part, first);
    }
  }

  /// Seconds until all of so many calls are done, which begin when every rank is here.
  [[nodiscard]] double clocked(collective_call const& call, std::size_t count, int calls) {
    std::vector<std::pair<request_type, request_type>> pending;
    pending.reserve(static_cast<std::size_t>(calls));
    comm_.barrier(stream_).wait();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) pending.push_back(start(call, count));
    for (auto& [there, back] : pending) {
      there.wait();
      back.wait();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  [[nodiscard]] auto start(collective_call const& call, std::size_t count) {
    std::span<T const> const in = input(call, count);
    std::span<T> const out = output(call, count);
    auto const one = [](request_type r) { return std::pair(std::move(r), request_type()); };
    switch (call.kind) {
      case operation_kind::all_reduce: return one(comm_.all_reduce(stream_, out, reduction::sum));
      case operation_kind::reduce_scatter:
        return one(comm_.reduce_scatter(stream_, out, in, reduction::sum));
      case operation_kind::all_gather: return one(comm_.all_gather(stream_, out, in));
      case operation_kind::all_to_all: return one(comm_.all_to_all(stream_, out, in));
      case operation_kind::broadcast: return one(comm_.broadcast(stream_, out, call.root));
      default: return messages(out, in);
    }
  }

  [[nodiscard]] auto messages(std::span<T> out, std::span<T const> in) {
    int const n = comm_.size(), r = comm_.rank(), to = (r + 1) % n, from = (r + n - 1) % n;
    require(n > 1, "timed_collectives: one rank alone sends no messages");
    if constexpr (groups_messages<Comm>) {
      call_group both(comm_);
      static_cast<void>(both.send(stream_, in, to));
      static_cast<void>(both.recv(stream_, out, from));
      return std::pair(both.end(stream_), request_type());
    } else {
      auto sent = comm_.send(stream_, in, to);
      return std::pair(std::move(sent), comm_.recv(back_, out, from));
    }
  }

  [[nodiscard]] double greatest(double x) { return agreed(x, reduction::max); }
  [[nodiscard]] double total(double x) { return agreed(x, reduction::sum); }
  [[nodiscard]] double agreed(double x, reduction how) {
    agreed_.span()[0] = x;
    if constexpr (std::same_as<Comm, Control>) {
      control_.all_reduce(stream_, agreed_.span(), how).wait();
    } else {
      comm_stream<Device, Control> agreeing(comm_options<Control>(device_));
      control_.all_reduce(agreeing, agreed_.span(), how).wait();
    }
    return agreed_.span()[0];
  }

  using exchange_stream = comm_stream<Device, Comm>;

  Device& device_;
  Comm& comm_;
  Control& control_;
  exchange_stream stream_, back_;
  std::vector<registered_memory> registered_;
  buffer<T> in_, out_;
  buffer<double> agreed_;
  std::vector<T> host_;
};

}  // namespace parallel

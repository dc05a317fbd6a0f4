// The fake NCCL's exchanges of memory, which run when all ranks have arrived.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include <parallel/comm/detail/combine.hpp>

#include "fake_nccl/library.hpp"

namespace fake_nccl {

using all_parts = std::vector<std::optional<primitive>>;

/// Throws unless memory that other ranks access in windows has the same location on each rank.
inline void require_symmetry(clique const& clique, primitive const& a, primitive const& b) {
  bool const reached[] = {a.operation == kind::all_reduce || a.operation == kind::reduce_scatter,
                          a.operation == kind::all_reduce || a.operation == kind::all_gather};
  if (a.count > 0 && ((reached[0] && a.from_window != b.from_window) ||
                      (reached[1] && a.to_window != b.to_window)))
    throw std::runtime_error(concat("ranks of communicator ", clique.number, " disagree: ",
                                    a.text(), " is elsewhere in windows, or in others"));
}

/// Throws unless all ranks have made the same call.
inline void require_agreement(clique const& clique, all_parts const& parts) {
  primitive const& first = *parts[0];
  for (auto const& part : parts) {
    if (!agree(first, *part))
      throw std::runtime_error(concat("ranks of communicator ", clique.number,
                                      " disagree: ", first.text(), " and ", part->text()));
    if (part->count > 0 && (part->from_registered != first.from_registered ||
                            part->to_registered != first.to_registered))
      throw std::runtime_error(concat("ranks of communicator ", clique.number, " disagree: ",
                                      first.text(), " is of registered memory on some alone"));
    require_symmetry(clique, first, *part);
  }
}

/// Throws unless the memory of the part is still allocated: it may have been freed since its rank
/// arrived.
inline void require_alive(primitive const& part) {
  if (part.count == 0) return;
  fake_cuda::require_access(part.device, part.in, 1, names[static_cast<int>(part.operation)]);
  fake_cuda::require_access(part.device, part.out, 1, names[static_cast<int>(part.operation)]);
}

/// Computes a collective. All ranks have arrived and agree, and the caller holds the library's
/// lock.
inline void exchange_parts(library& l, all_parts const& parts) {
  primitive const& first = *parts[0];
  auto const n = parts.size();
  std::size_t const width = width_of(first.type);
  std::size_t const bytes = first.count * width;
  std::size_t const moved = l.options.fault == fault::wrong_count ? bytes - width : bytes;
  auto const in = [&](std::size_t r, std::size_t offset) {
    return static_cast<std::byte const*>(parts[r]->in) + offset;
  };
  auto const out = [&](std::size_t r, std::size_t offset) {
    return static_cast<std::byte*>(parts[r]->out) + offset;
  };
  auto const reduce = [&](std::vector<void*> const& outs, std::size_t offset) {
    std::vector<void const*> sources;
    for (std::size_t r = 0; r < n; ++r) sources.push_back(in(r, offset));
    auto const reduction = first.reduction == ncclMax   ? parallel::reduction::max
                           : first.reduction == ncclMin ? parallel::reduction::min
                                                        : parallel::reduction::sum;
    // NCCL promises no order of the ranks' addends; here sums begin with the second rank
    if (reduction == parallel::reduction::sum && n > 1)
      std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    parallel::detail::combine(dtype_of(first.type), reduction, outs, sources, moved / width);
  };
  switch (first.operation) {
    case kind::all_reduce: {
      std::vector<void*> outs;
      for (std::size_t r = 0; r < n; ++r) outs.push_back(out(r, 0));
      return reduce(outs, 0);
    }
    case kind::reduce_scatter:
      for (std::size_t r = 0; r < n; ++r) reduce({out(r, 0)}, r * bytes);
      return;
    case kind::all_gather:
      for (std::size_t to = 0; to < n; ++to)
        for (std::size_t r = 0; r < n; ++r) std::memmove(out(to, r * bytes), in(r, 0), moved);
      return;
    case kind::broadcast: {
      auto const root =
          (static_cast<std::size_t>(first.peer) + (l.options.fault == fault::wrong_root ? 1 : 0)) %
          n;
      for (std::size_t r = 0; r < n; ++r)
        if (out(r, 0) != in(root, 0)) std::memmove(out(r, 0), in(root, 0), moved);
      return;
    }
    default: return;
  }
}

/// The registration that contains the bytes; null if they are not registered with the communicator.
inline registration const* registered(ncclComm const& comm, void const* memory, std::size_t bytes) {
  auto const* const from = static_cast<std::byte const*>(memory);
  auto const found = std::ranges::find_if(comm.registered, [&](auto const& one) {
    auto const& range = one.second.range;
    return from >= range.data() && from + bytes <= range.data() + range.size();
  });
  return found == comm.registered.end() ? nullptr : &found->second;
}

/// Counts the bytes that a part reads and writes, and records in `p` whether they are registered.
inline void count_traffic(library& l, ncclComm const& comm, primitive& p, std::size_t read,
                          std::size_t written) {
  auto& sum = l.history.exchanged[concat(names[static_cast<int>(p.operation)], " of ",
                                         parallel::to_string(dtype_of(p.type)))];
  auto const add = [&](void const* memory, std::size_t bytes, window_location& location) {
    if (memory == nullptr) return false;
    auto const* const found = registered(comm, memory, bytes);
    sum.bytes += bytes;
    if (found == nullptr) return false;
    sum.registered += bytes;
    if (found->window == 0) return true;
    sum.in_windows += bytes;
    auto const* const from = static_cast<std::byte const*>(memory);
    location = {found->window, static_cast<std::size_t>(from - found->range.data())};
    return true;
  };
  p.from_registered = add(p.in, read, p.from_window);
  p.to_registered = add(p.out, written, p.to_window);
}

/// Records a failure when memory was freed before its registration ended.
inline void check_registered_memory(library& l, ncclComm const& comm,
                                    std::span<std::byte const> range) {
  try {
    fake_cuda::require_access(comm.device, range.data(), range.size(), "registered memory");
  } catch (std::exception const& problem) {
    static_cast<void>(
        l.refuse(concat("memory was freed while it was registered: ", problem.what())));
  }
}

/// Throws unless the rank's device can access the part's memory, and input and output overlap only
/// as NCCL allows.
inline void check_memory(ncclComm const& comm, primitive& p) {
  std::size_t const bytes = p.count * width_of(p.type);
  auto const n = static_cast<std::size_t>(comm.clique->size);
  bool const gathers = p.operation == kind::all_gather,
             scatters = p.operation == kind::reduce_scatter;
  std::size_t const read = scatters ? n * bytes : bytes, written = gathers ? n * bytes : bytes;
  char const* const name = names[static_cast<int>(p.operation)];
  if (p.in != nullptr) fake_cuda::require_access(comm.device, p.in, read, name);
  if (p.out != nullptr) fake_cuda::require_access(comm.device, p.out, written, name);
  count_traffic(library::get(), comm, p, read, written);
  if (p.in == nullptr || p.out == nullptr || bytes == 0) return;
  auto const* const in = static_cast<std::byte const*>(p.in);
  auto const* const out = static_cast<std::byte const*>(p.out);
  auto const own_offset = static_cast<std::size_t>(comm.rank) * bytes;
  bool const is_disjoint = in + read <= out || out + written <= in;
  bool const in_place = gathers    ? in == out + own_offset
                        : scatters ? out == in + own_offset
                                   : in == out;
  if (!is_disjoint && !in_place)
    throw std::runtime_error(concat(name, ": input and output overlap, but are not in place"));
}

}  // namespace fake_nccl

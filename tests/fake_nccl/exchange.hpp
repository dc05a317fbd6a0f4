// What the fake NCCL's ranks do with each other's memory once all have come.
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

/// Throws unless what other ranks reach of windows lies in the same place of the same on each.
inline void require_symmetry(clique const& of, primitive const& a, primitive const& b) {
  bool const reached[] = {a.what == kind::all_reduce || a.what == kind::reduce_scatter,
                          a.what == kind::all_reduce || a.what == kind::all_gather};
  if (a.count > 0 && ((reached[0] && a.from_window != b.from_window) ||
                      (reached[1] && a.to_window != b.to_window)))
    throw std::runtime_error(concat("ranks of communicator ", of.number, " disagree: ", a.text(),
                                    " is elsewhere in windows, or in others"));
}

/// Throws unless all ranks have come with the same.
inline void require_agreement(clique const& of, all_parts const& parts) {
  primitive const& first = *parts[0];
  for (auto const& part : parts) {
    if (!agree(first, *part))
      throw std::runtime_error(concat("ranks of communicator ", of.number,
                                      " disagree: ", first.text(), " and ", part->text()));
    if (part->count > 0 && (part->from_registered != first.from_registered ||
                            part->to_registered != first.to_registered))
      throw std::runtime_error(concat("ranks of communicator ", of.number, " disagree: ",
                                      first.text(), " is of registered memory on some alone"));
    require_symmetry(of, first, *part);
  }
}

/// Throws unless what the part reads and writes is there: it may have been freed since its rank
/// came.
inline void require_alive(primitive const& part) {
  if (part.count == 0) return;
  fake_cuda::require_access(part.device, part.in, 1, names[static_cast<int>(part.what)]);
  fake_cuda::require_access(part.device, part.out, 1, names[static_cast<int>(part.what)]);
}

/// Runs under the library's lock when all ranks have come, and agree.
inline void exchange_parts(library& l, all_parts const& parts) {
  primitive const& first = *parts[0];
  auto const n = parts.size();
  std::size_t const width = width_of(first.type);
  std::size_t const bytes = first.count * width;
  std::size_t const moved = l.options.fault == fault::wrong_count ? bytes - width : bytes;
  auto const in = [&](std::size_t r, std::size_t at) {
    return static_cast<std::byte const*>(parts[r]->in) + at;
  };
  auto const out = [&](std::size_t r, std::size_t at) {
    return static_cast<std::byte*>(parts[r]->out) + at;
  };
  auto const reduce = [&](std::vector<void*> const& outs, std::size_t at) {
    std::vector<void const*> sources;
    for (std::size_t r = 0; r < n; ++r) sources.push_back(in(r, at));
    auto const how = first.how == ncclMax   ? parallel::reduction::max
                     : first.how == ncclMin ? parallel::reduction::min
                                            : parallel::reduction::sum;
    // NCCL promises no order of ranks: neither does this, whose sums begin with the second one
    if (how == parallel::reduction::sum && n > 1)
      std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    parallel::detail::combine(dtype_of(first.type), how, outs, sources, moved / width);
  };
  switch (first.what) {
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

/// The registration in which the bytes lie; null: they are not registered with the communicator.
inline registration const* registered(ncclComm const& comm, void const* memory, std::size_t bytes) {
  auto const* const from = static_cast<std::byte const*>(memory);
  auto const found = std::ranges::find_if(comm.registered, [&](auto const& one) {
    auto const& range = one.second.range;
    return from >= range.data() && from + bytes <= range.data() + range.size();
  });
  return found == comm.registered.end() ? nullptr : &found->second;
}

/// Counts what a part reads and writes, and notes whether it is registered.
inline void count(library& l, ncclComm const& comm, primitive& p, std::size_t read,
                  std::size_t written) {
  auto& sum = l.happened.exchanged[concat(names[static_cast<int>(p.what)], " of ",
                                          parallel::name_of(dtype_of(p.type)))];
  auto const add = [&](void const* memory, std::size_t bytes, window_place& place) {
    if (memory == nullptr) return false;
    auto const* const found = registered(comm, memory, bytes);
    sum.bytes += bytes;
    if (found == nullptr) return false;
    sum.registered += bytes;
    if (found->window == 0) return true;
    sum.in_windows += bytes;
    auto const* const from = static_cast<std::byte const*>(memory);
    place = {found->window, static_cast<std::size_t>(from - found->range.data())};
    return true;
  };
  p.from_registered = add(p.in, read, p.from_window);
  p.to_registered = add(p.out, written, p.to_window);
}

/// Notes memory that was freed while it was registered, when registrations end.
inline void look_at_registered(library& l, ncclComm const& comm, std::span<std::byte const> range) {
  try {
    fake_cuda::require_access(comm.device, range.data(), range.size(), "registered memory");
  } catch (std::exception const& problem) {
    static_cast<void>(
        l.refuse(concat("memory was freed while it was registered: ", problem.what())));
  }
}

/// Throws unless the rank's device reaches what it reads and writes, which may overlap as NCCL
/// allows.
inline void look_at(ncclComm const& comm, primitive& p) {
  std::size_t const bytes = p.count * width_of(p.type);
  auto const n = static_cast<std::size_t>(comm.of->size);
  bool const gathers = p.what == kind::all_gather, scatters = p.what == kind::reduce_scatter;
  std::size_t const read = scatters ? n * bytes : bytes, written = gathers ? n * bytes : bytes;
  char const* const name = names[static_cast<int>(p.what)];
  if (p.in != nullptr) fake_cuda::require_access(comm.device, p.in, read, name);
  if (p.out != nullptr) fake_cuda::require_access(comm.device, p.out, written, name);
  count(library::get(), comm, p, read, written);
  if (p.in == nullptr || p.out == nullptr || bytes == 0) return;
  auto const* const in = static_cast<std::byte const*>(p.in);
  auto const* const out = static_cast<std::byte const*>(p.out);
  auto const own = static_cast<std::size_t>(comm.rank) * bytes;
  bool const apart = in + read <= out || out + written <= in;
  bool const in_place = gathers ? in == out + own : scatters ? out == in + own : in == out;
  if (!apart && !in_place)
    throw std::runtime_error(concat(name, ": input and output overlap, but are not in place"));
}

}  // namespace fake_nccl

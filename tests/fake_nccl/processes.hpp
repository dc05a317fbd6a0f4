// The fake NCCL where ranks are processes: what they give each other goes by a board.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fake_nccl/exchange.hpp"
#include "fake_nccl/library.hpp"

namespace fake_nccl {

/// What a rank that is a process posts of its part, and what it posts it with.
inline std::string posted(primitive const& p, std::size_t bytes) {
  std::string out(sizeof p + bytes, '\0');
  std::memcpy(out.data(), &p, sizeof p);
  fake_cuda::guard([&] {
    if (bytes > 0) std::memcpy(out.data() + sizeof p, p.in, bytes);
  });
  return out;
}
inline primitive part_of(std::string& post) {
  primitive p{kind::send};
  std::memcpy(&p, post.data(), sizeof p);
  p.in = post.data() + sizeof p;
  return p;
}

/// A rank's part of a collective of processes: all have all inputs, and each keeps its output.
inline void exchange_between_processes(library& l, std::unique_lock<std::mutex>& lock,
                                       ncclComm& comm, primitive const& mine, std::uint64_t which) {
  auto const& of = *comm.of;
  auto const n = static_cast<std::size_t>(of.size);
  auto const name = [&](std::uint64_t number, int rank) {
    return concat(of.name, ".collective", number, ".rank", rank);
  };
  std::size_t const bytes = mine.count * width_of(mine.type);
  std::size_t const read = mine.what == kind::reduce_scatter ? n * bytes : bytes;
  std::size_t const written = mine.what == kind::all_gather ? n * bytes : bytes;
  l.board->post(name(which, comm.rank), posted(mine, read));
  int next = 0;
  l.wait(lock, comm, concat("waits for other processes in collective ", which, ", ", mine.text()),
         [&] {
           while (next < of.size && l.board->has(name(which, next))) ++next;
           return next == of.size;
         });
  std::vector<std::string> posts, unused(n);
  all_parts parts;
  for (int rank = 0; rank < of.size; ++rank) {
    auto& post = posts.emplace_back(l.board->read(name(which, rank)));
    post.shrink_to_fit();
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    auto& part = parts.emplace_back(part_of(posts[rank]));
    if (rank == static_cast<std::size_t>(comm.rank)) {
      part->out = mine.out;
    } else {
      unused[rank].resize(written);
      part->out = unused[rank].data();
    }
  }
  require_agreement(of, parts);
  auto there = mine;
  there.device = comm.device;
  require_alive(there);
  fake_cuda::guard([&] { exchange_parts(l, parts); });
  // who has come to this one has read those before
  if (which > 0) l.board->remove(name(which - 1, comm.rank));
  ++l.happened.operations;
}

/// What a launch does where ranks are processes.
inline void run_between_processes(library& l, std::unique_lock<std::mutex>& lock,
                                  launch const& what, std::vector<std::uint64_t> const& numbers) {
  auto& comm = *what.comm;
  auto const failed = [&](std::string const& why) {
    l.happened.failures.push_back(why);
    comm.of->aborted = true;
    l.moved();
    throw std::runtime_error(why);
  };
  auto const message = [&](int from, int to, std::uint64_t number) {
    return concat(comm.of->name, ".message", number, ".from", from, ".to", to);
  };
  std::size_t collective = 0;
  std::vector<std::pair<std::string, std::string>> sent;  // and what they are
  for (auto const& p : what.parts) {
    if (p.is_message()) continue;
    try {
      exchange_between_processes(l, lock, comm, p, numbers[collective++]);
    } catch (std::exception const& problem) {
      if (comm.aborted || comm.of->aborted) throw;
      failed(problem.what());
    }
  }
  for (auto const& p : what.parts)
    if (p.what == kind::send) {
      auto const& [name, text] =
          sent.emplace_back(message(comm.rank, p.peer, comm.sent[p.peer]++), p.text());
      l.board->post(name, posted(p, p.count * width_of(p.type)));
    }
  for (auto const& p : what.parts) {
    if (p.what != kind::recv) continue;
    auto const name = message(p.peer, comm.rank, comm.received[p.peer]++);
    l.wait(lock, comm, "waits for its sender, " + p.text(), [&] { return l.board->has(name); });
    auto post = l.board->read(name);
    auto const came = part_of(post);
    if (came.count != p.count || came.type != p.type)
      failed(concat("sender and receiver of communicator ", comm.of->number,
                    " disagree: ", came.text(), " and ", p.text()));
    fake_cuda::guard([&] {
      if (p.count > 0) std::memmove(p.out, came.in, p.count * width_of(p.type));
    });
    l.board->remove(name);
    ++l.happened.operations;
    l.moved();
  }
  for (auto const& [name, text] : sent) {
    auto const& untaken = name;
    l.wait(lock, comm, "waits for its receiver, " + text, [&] { return !l.board->has(untaken); });
  }
}

/// Whether all processes have come to the communicator's last split.
inline bool have_come_to_split(library& l, ncclComm const& comm) {
  for (int rank = 0; rank < comm.of->size; ++rank)
    if (!l.board->has(concat(comm.of->name, ".split", comm.splits - 1, ".rank", rank)))
      return false;
  return true;
}

inline ncclResult_t split_between_processes(library& l, ncclComm& comm, int color, int key,
                                            ncclComm_t* made, bool blocking) {
  auto const posts = concat(comm.of->name, ".split", comm.splits++, ".rank");
  l.board->post(concat(posts, comm.rank), concat(color, ' ', key));
  comm.in_progress = l.options.in_progress;
  *made = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  auto const of = join(l, nullptr, 0, 0, made, blocking);
  of->name = concat(posts, ".color", color);
  of->pending = pending_split{posts, comm.of->size, comm.rank, color};
  return ncclInProgress;
}

/// Whether all processes of a communicator have come; a split one's ranks are known then.
inline bool all_have_come(library& l, ncclComm& comm) {
  auto& of = *comm.of;
  if (!of.pending) {
    int came = 0;
    while (came < of.size && l.board->has(concat(of.name, ".joined", came))) ++came;
    return came == of.size;
  }
  auto const& round = *of.pending;
  for (int rank = 0; rank < round.ranks; ++rank)
    if (!l.board->has(concat(round.posts, rank))) return false;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < round.ranks; ++rank) {
    auto const text = l.board->read(concat(round.posts, rank));
    auto const space = text.find(' ');
    if (std::stoi(text.substr(0, space)) == round.color)
      members.emplace_back(std::stoi(text.substr(space)), rank);
  }
  std::ranges::sort(members);
  of.size = static_cast<int>(members.size());
  comm.rank = static_cast<int>(
      std::ranges::find(members, round.rank, &std::pair<int, int>::second) - members.begin());
  return true;
}

}  // namespace fake_nccl

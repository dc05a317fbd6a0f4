// The fake NCCL where ranks are processes, which exchange data by posts on a board.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fake_nccl/exchange.hpp"
#include "fake_nccl/library.hpp"

namespace fake_nccl {

/// The post of a rank's part, followed by `bytes` bytes of its input.
inline std::string make_post(primitive const& p, std::size_t bytes) {
  std::string out(sizeof p + bytes, '\0');
  std::memcpy(out.data(), &p, sizeof p);
  fake_cuda::guard([&] {
    if (bytes > 0) std::memcpy(out.data() + sizeof p, p.in, bytes);
  });
  return out;
}
/// The part in a post; its input stays in the post.
inline primitive read_part(std::string& post) {
  primitive p{kind::send};
  std::memcpy(&p, post.data(), sizeof p);
  p.in = post.data() + sizeof p;
  return p;
}

/// Runs a collective of processes: every process reads all inputs and keeps its own output.
inline void exchange_between_processes(library& l, std::unique_lock<std::mutex>& lock,
                                       ncclComm& comm, primitive const& own_part,
                                       std::uint64_t collective_number) {
  auto const& clique = *comm.clique;
  auto const n = static_cast<std::size_t>(clique.size);
  auto const name = [&](std::uint64_t number, int rank) {
    return concat(clique.name, ".collective", number, ".rank", rank);
  };
  std::size_t const bytes = own_part.count * width_of(own_part.type);
  std::size_t const read = own_part.operation == kind::reduce_scatter ? n * bytes : bytes;
  std::size_t const written = own_part.operation == kind::all_gather ? n * bytes : bytes;
  l.board->post(name(collective_number, comm.rank), make_post(own_part, read));
  int next = 0;
  l.wait(
      lock, comm,
      concat("waits for other processes in collective ", collective_number, ", ", own_part.text()),
      [&] {
        while (next < clique.size && l.board->contains(name(collective_number, next))) ++next;
        return next == clique.size;
      });
  std::vector<std::string> posts, unused(n);
  all_parts parts;
  for (int rank = 0; rank < clique.size; ++rank) {
    auto& post = posts.emplace_back(l.board->read(name(collective_number, rank)));
    post.shrink_to_fit();
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    auto& part = parts.emplace_back(read_part(posts[rank]));
    if (rank == static_cast<std::size_t>(comm.rank)) {
      part->out = own_part.out;
    } else {
      unused[rank].resize(written);
      part->out = unused[rank].data();
    }
  }
  require_agreement(clique, parts);
  auto local_part = own_part;
  local_part.device = comm.device;
  require_alive(local_part);
  fake_cuda::guard([&] { exchange_parts(l, parts); });
  // a rank that has posted for this collective has read the posts of the one before
  if (collective_number > 0) l.board->remove(name(collective_number - 1, comm.rank));
  ++l.history.operations;
}

/// Runs a launch where ranks are processes.
inline void run_between_processes(library& l, std::unique_lock<std::mutex>& lock,
                                  launch const& kernel, std::vector<std::uint64_t> const& numbers) {
  auto& comm = *kernel.comm;
  auto const fail_all_ranks = [&](std::string const& reason) {
    l.history.failures.push_back(reason);
    comm.clique->aborted = true;
    l.note_progress();
    throw std::runtime_error(reason);
  };
  auto const message = [&](int from, int to, std::uint64_t number) {
    return concat(comm.clique->name, ".message", number, ".from", from, ".to", to);
  };
  std::size_t collective = 0;
  std::vector<std::pair<std::string, std::string>> sent;  // post and description
  for (auto const& p : kernel.parts) {
    if (p.is_message()) continue;
    try {
      exchange_between_processes(l, lock, comm, p, numbers[collective++]);
    } catch (std::exception const& problem) {
      if (comm.aborted || comm.clique->aborted) throw;
      fail_all_ranks(problem.what());
    }
  }
  for (auto const& p : kernel.parts)
    if (p.operation == kind::send) {
      auto const& [name, text] =
          sent.emplace_back(message(comm.rank, p.peer, comm.sent[p.peer]++), p.text());
      l.board->post(name, make_post(p, p.count * width_of(p.type)));
    }
  for (auto const& p : kernel.parts) {
    if (p.operation != kind::recv) continue;
    auto const name = message(p.peer, comm.rank, comm.received[p.peer]++);
    l.wait(lock, comm, "waits for its sender, " + p.text(),
           [&] { return l.board->contains(name); });
    auto post = l.board->read(name);
    auto const received = read_part(post);
    if (received.count != p.count || received.type != p.type)
      fail_all_ranks(concat("sender and receiver of communicator ", comm.clique->number,
                            " disagree: ", received.text(), " and ", p.text()));
    fake_cuda::guard([&] {
      if (p.count > 0) std::memmove(p.out, received.in, p.count * width_of(p.type));
    });
    l.board->remove(name);
    ++l.history.operations;
    l.note_progress();
  }
  for (auto const& [name, text] : sent) {
    auto const& unreceived = name;
    l.wait(lock, comm, "waits for its receiver, " + text,
           [&] { return !l.board->contains(unreceived); });
  }
}

/// Whether all processes have posted for the communicator's last split.
inline bool is_split_posted(library& l, ncclComm const& comm) {
  for (int rank = 0; rank < comm.clique->size; ++rank)
    if (!l.board->contains(concat(comm.clique->name, ".split", comm.splits - 1, ".rank", rank)))
      return false;
  return true;
}

inline ncclResult_t split_between_processes(library& l, ncclComm& comm, int color, int key,
                                            ncclComm_t* new_comm, bool blocking) {
  auto const posts = concat(comm.clique->name, ".split", comm.splits++, ".rank");
  l.board->post(concat(posts, comm.rank), concat(color, ' ', key));
  comm.in_progress = l.options.in_progress;
  *new_comm = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclInProgress;
  auto const clique = join(l, nullptr, 0, 0, new_comm, blocking);
  clique->name = concat(posts, ".color", color);
  clique->pending = pending_split{posts, comm.clique->size, comm.rank, color};
  return ncclInProgress;
}

/// Whether all processes of a communicator have joined; sets the size and rank of a split one then.
inline bool have_all_joined(library& l, ncclComm& comm) {
  auto& clique = *comm.clique;
  if (!clique.pending) {
    int joined = 0;
    while (joined < clique.size && l.board->contains(concat(clique.name, ".joined", joined)))
      ++joined;
    return joined == clique.size;
  }
  auto const& round = *clique.pending;
  for (int rank = 0; rank < round.ranks; ++rank)
    if (!l.board->contains(concat(round.posts, rank))) return false;
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int rank = 0; rank < round.ranks; ++rank) {
    auto const text = l.board->read(concat(round.posts, rank));
    auto const space = text.find(' ');
    if (std::stoi(text.substr(0, space)) == round.color)
      members.emplace_back(std::stoi(text.substr(space)), rank);
  }
  std::ranges::sort(members);
  clique.size = static_cast<int>(members.size());
  comm.rank = static_cast<int>(
      std::ranges::find(members, round.rank, &std::pair<int, int>::second) - members.begin());
  return true;
}

}  // namespace fake_nccl

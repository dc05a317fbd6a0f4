// nccl::communicator: ranks with a GPU each, which exchange its memory by NCCL.
//
// Operations are enqueued on a CUDA stream; no thread of the host waits for another rank, except
// while communicators are made. NCCL runs the operations of one communicator one after the other,
// on whatever streams: so messages to and from neighbours, which must not wait for each other, have
// a communicator of two ranks for each direction (connect_neighbours), and other messages are one
// call with what is received (call_group). Sums of floats are in NCCL's order; what it lacks
// (tree_sum, wide_sum, the extremes of floats with their NaN) is gathered and combined by our own
// kernel, in the order of ranks. Calls are noted in a flight recorder, if there is one: a call
// "runs" when the stream has come to it and the one before it on its communicator is over, as far
// as the watchdog has looked. docs/nccl.md has NCCL's rules and where they are kept.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/part.hpp>
#include <parallel/comm/nccl/calls.hpp>
#include <parallel/comm/nccl/comm_stream.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/nccl/session.hpp>
#include <parallel/comm/registered_memory.hpp>

namespace parallel::nccl {

/// What all ranks of a world must be given alike; one of them makes it. Throws `error` when NCCL
/// finds no network interface.
[[nodiscard]] inline ncclUniqueId make_unique_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

class communicator : public collectives<communicator, cuda::stream> {
 public:
  /// Send and receive may be parts of one call (call_group), which waits for neither.
  static constexpr bool groups_messages = true;

  /// Rank `rank` of `size`, on the current GPU, which no other rank may have. Collective and
  /// blocking. Throws `error` when NCCL refuses, or not all ranks come before the deadline.
  communicator(ncclUniqueId const& id, int rank, int size, communicator_options options = {},
               std::shared_ptr<notice_board> board = nullptr)
      : session_(std::make_shared<session>(rank, options, std::move(board))), rank_(rank) {
    require(size >= 1 && rank >= 0 && rank < size, "nccl::communicator: rank ", rank,
            " is not one of ", size);
    for (int r = 0; r < size; ++r) ranks_.push_back(r);
    auto const call = [&](ncclComm_t* made, ncclConfig_t* config) {
      return ncclCommInitRankConfig(made, size, id, rank, config);
    };
    member_ = size > 1 ? session_->make({}, "ncclCommInitRankConfig", nullptr, call)
                       : session_->alone({});
    if (size > 1) meeting_ = std::make_shared<meeting_place>(session_->device(), size);
    join_recorded_group();
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Ends all communicators of this rank, and those of the others that share its notice board.
  void abort(std::string const& reason) { session_->abort(reason); }
  /// See `tells_aborts`.
  [[nodiscard]] std::optional<std::string> abort_reason() { return session_->abort_reason(); }

  /// Enqueues `op`. While `s` is captured, the operation becomes a part of the graph: whoever runs
  /// that keeps the memory, and its waits are not watched.
  request_type submit(cuda::stream& s, operation const& op) {
    session_->throw_if_aborted();
    cuda::device_scope const scope(session_->device());
    auto notes = note(op);
    bool const captured = s.capturing();
    std::optional<cuda::event> begins;
    if (!notes.empty() && !captured) begins = s.record();
    notes.now(call_state::running);  // the host may stand still in it
    auto const at = is_message(op.kind) ? enqueue_message(s, op) : enqueue(s, op);
    notes.now(call_state::waiting);
    auto owners = std::make_shared<parallel::detail::kept>();
    std::weak_ptr<parallel::detail::kept> const weak = owners;
    auto done = s.record();
    if (!captured)
      session_->expect(
          *at.over, {done, op, at.number, std::move(owners), std::move(notes), std::move(begins)});
    return {std::move(done), weak, {session_, world_rank(rank_)}, op};
  }

  /// Rendezvous of all ranks by an all_gather, on the calling thread; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(cuda::stream const* on = nullptr) {
    require(on == nullptr, "nccl: signatures are exchanged by the calling thread alone");
    return [self = *this](signature const& mine) mutable { return self.meet(mine); };
  }

  /// See `has_split`. A part of one rank has no communicator of NCCL.
  [[nodiscard]] communicator split(coloring const& by, std::string name = {}) {
    auto const colors =
        parallel::detail::colors_of(by, rank_, size(), [&] { return open_exchange(); });
    require(colors[static_cast<std::size_t>(rank_)] == by.of(rank_),
            "nccl: what ranks have gathered is not what they gave; NCCL or its network is broken");
    auto const part = parallel::detail::part_of(colors, rank_);
    communicator out(session_, part.rank, std::move(name));
    for (int const of : part.members) out.ranks_.push_back(world_rank(of));
    out.meeting_ = meeting_;
    out.member_ = split_off(colors, out.name_);
    if (!out.member_) out.member_ = session_->alone(out.name_);
    out.join_recorded_group();
    return out;
  }

  /// See parallel::connect_neighbours. Makes a communicator of two ranks for each direction between
  /// neighbours, in two rounds, or three where their number is odd. Each carries a first message at
  /// once: NCCL connects two ranks then, and their hosts wait for each other meanwhile, which must
  /// not be where both send before they receive.
  void connect_neighbours() {
    int const n = size();
    if (n == 1 || !channels_.empty()) return;
    int const edges = n == 2 ? 1 : n;  // edge e: between ranks e and e + 1
    for (int round = 0; round < 3; ++round) {
      std::vector<int> colors(static_cast<std::size_t>(n), -1);
      for (int e = 0; e < edges; ++e) {
        bool const is_odd_one = n % 2 == 1 && e == n - 1;
        if ((is_odd_one ? 2 : e % 2) != round) continue;
        colors[static_cast<std::size_t>(e)] = colors[static_cast<std::size_t>((e + 1) % n)] = e;
      }
      for (bool const forward : {true, false}) {
        auto made = split_off(colors, concat(name_, forward ? " forward" : " back"));
        int const e = colors[static_cast<std::size_t>(rank_)];
        if (!made) continue;
        int const peer = e == rank_ ? (e + 1) % n : e;
        bool const sends = (e == rank_) == forward;
        channels_.push_back({peer, sends, std::move(made)});
        carry_first_message(peer, sends);
      }
    }
  }

  /// For a device to take exchanged memory from; then it is registered as windows. It may outlive
  /// the communicator.
  [[nodiscard]] memory_source exchanged_memory() const { return session_->exchanged_memory(); }

  /// See `registers_memory`. Waits, before it ends a registration, for the operations enqueued by
  /// then on this communicator. Of one rank, or where NCCL_LOCAL_REGISTER=0 says so: nothing.
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    if (size() == 1 || memory.empty()) return {};
    return session_->register_memory(member_, memory);
  }

 private:
  struct channel {
    int peer = 0;
    bool sends = false;
    std::shared_ptr<member> over;
    std::uint64_t calls = 0;
  };

  /// Where signatures of so many ranks are exchanged; it is there before any, since nothing may be
  /// allocated while exchanges are under way. Used by one thread at a time.
  struct meeting_place {
    meeting_place(int device, int ranks) : on({.device = device}) {
      static_cast<void>(on.scratch((static_cast<std::size_t>(ranks) + 1) * sizeof(signature)));
    }
    cuda::stream on;
  };

  communicator(std::shared_ptr<session> of, int rank, std::string name)
      : session_(std::move(of)), name_(std::move(name)), rank_(rank) {}

  /// The communicator of this rank's color; null: it would be alone, or has none (-1). Nobody calls
  /// NCCL when that is so for all. Ranks keep their order. A rank that would be alone makes one for
  /// the time being: aborting a split that made none there (NCCL_SPLIT_NOCOLOR) crashes NCCL.
  [[nodiscard]] std::shared_ptr<member> split_off(std::vector<int> const& colors,
                                                  std::string const& name) {
    std::map<int, int> sizes;
    bool together = false;
    for (int const color : colors)
      if (color >= 0 && ++sizes[color] > 1) together = true;
    if (!together) return nullptr;
    int const color = colors[static_cast<std::size_t>(rank_)];
    bool const alone = color < 0 || sizes[color] == 1;
    // NCCL's: the first rank of the part
    int const part =
        alone ? rank_ : static_cast<int>(std::ranges::find(colors, color) - colors.begin());
    auto const notes = note({.kind = operation_kind::split, .peer = color});
    notes.now(call_state::running);
    auto out = session_->make(name, "ncclCommSplit", member_->comm,
                              [&](ncclComm_t* made, ncclConfig_t* config) {
                                return ncclCommSplit(member_->comm, part, rank_, made, config);
                              });
    notes.now(call_state::done);
    return alone ? nullptr : out;
  }

  /// On which communicator an operation runs, and its number among the calls of that.
  struct place_of_call {
    std::shared_ptr<member> over;
    std::uint64_t number = 0;
  };

  [[nodiscard]] place_of_call enqueue(cuda::stream& s, operation const& op) {
    place_of_call const out{member_, calls_++};
    if (size() == 1) {
      for_each_part(op, [&](operation const& part) { detail::alone({nullptr, 0, 1, s}, part); });
      return out;
    }
    std::size_t bytes = 0;
    for_each_part(op, [&](operation const& part) { bytes += detail::scratch_of(part, size()); });
    detail::place at{member_->comm, rank_, size(), s, bytes > 0 ? s.scratch(bytes) : nullptr};
    std::byte* const scratch = at.scratch;
    auto const each = [&](auto const& f) {
      at.scratch = scratch;
      for_each_part(op, [&](operation const& part) {
        f(part);
        at.scratch += detail::scratch_of(part, size());
      });
    };
    static_cast<void>(s.run(name_of(op.kind).data(), [&] {
      group({at.comm}, name_of(op.kind), op.where, [&] {
        ncclResult_t all = ncclSuccess;
        each([&](operation const& part) {
          if (auto const one = detail::call(at, part); all == ncclSuccess) all = one;
        });
        return all;
      });
      return cudaSuccess;
    }));
    each([&](operation const& part) { detail::finish(at, part); });
    return out;
  }

  [[nodiscard]] place_of_call enqueue_message(cuda::stream& s, operation const& op) {
    bool const sends = op.kind == operation_kind::send;
    auto const found = std::ranges::find_if(
        channels_, [&](auto const& c) { return c.peer == op.peer && c.sends == sends; });
    require(found != channels_.end(), name_of(op.kind), " at ", op.where, ": there is no channel ",
            sends ? "to" : "from", " rank ", op.peer, name_.empty() ? "" : " of " + name_,
            ": call connect_neighbours before the first message, and send to neighbours only");
    auto& over = *found;
    operation part = op;
    part.peer = (op.peer < rank_) ? 0 : 1;  // the other one of the two, in their order
    ncclComm_t const comm = over.over->comm;
    static_cast<void>(s.run(name_of(op.kind).data(), [&] {
      group({comm}, name_of(op.kind), op.where, [&] {
        return detail::call({comm, 0, 2, s}, part);
      });
      return cudaSuccess;
    }));
    return {over.over, over.calls++};
  }

  void carry_first_message(int peer, bool sends) {
    cuda::device_scope const scope(session_->device());
    cuda::stream s({.device = session_->device()});
    std::span<std::byte> const one(s.scratch(1), 1);
    if (sends)
      send(s, std::span<std::byte const>(one), peer, 0).wait();
    else
      recv(s, one, peer, 0).wait();
  }

  /// What the recorder is told of a call, if there is one; ranks that are alone make none.
  [[nodiscard]] noted_calls note(operation op) const {
    if (recorded_.name.empty()) return {};
    return {session_->recorder(), *this, recorded_.name, recorded_.group, op};
  }

  /// Called otherwise than what connects the ranks beside NCCL.
  void join_recorded_group() {
    if (size() == 1 || !session_->recorder()) return;
    recorded_.name = name_.empty() ? "NCCL" : "NCCL " + name_;
    recorded_.group =
        group_number(recorded_.name, size(), [this](int rank) { return world_rank(rank); });
    session_->recorder()->joined(recorded_.group);
  }

  template <class Calls>
  void group(std::vector<ncclComm_t> const& of, std::string_view name, call_site where,
             Calls calls) {
    session_->run(
        of, name,
        [&] {
          check(ncclGroupStart(), "ncclGroupStart", of.front(), where);
          ncclResult_t inside = ncclInvalidArgument;
          try {
            inside = calls();
          } catch (...) {
            static_cast<void>(ncclGroupEnd());
            throw;
          }
          auto const end = ncclGroupEnd();
          return inside != ncclSuccess && inside != ncclInProgress ? inside : end;
        },
        where);
  }

  [[nodiscard]] std::vector<signature> meet(signature const& mine) {
    if (size() == 1) return {mine};
    cuda::device_scope const scope(session_->device());
    cuda::stream& s = meeting_->on;
    auto const n = static_cast<std::size_t>(size());
    auto* const all = s.scratch((n + 1) * sizeof mine);
    auto* const own = all + n * sizeof mine;
    cuda::check(cudaMemcpyAsync(own, &mine, sizeof mine, cudaMemcpyDefault, s.get()),
                "cudaMemcpyAsync");
    all_gather(s, std::span<std::byte>(all, n * sizeof mine),
               std::span<std::byte const>(own, sizeof mine))
        .wait();
    std::vector<signature> out(n);
    cuda::check(cudaMemcpyAsync(out.data(), all, n * sizeof mine, cudaMemcpyDefault, s.get()),
                "cudaMemcpyAsync");
    s.synchronize();
    return out;
  }

  std::shared_ptr<session> session_;
  std::string name_;
  std::vector<int> ranks_;                  // of the group, as the world counts
  int rank_ = 0;                            // in the group
  std::shared_ptr<meeting_place> meeting_;  // of the whole, and of all parts; null: of one rank
  std::shared_ptr<member> member_;
  std::uint64_t calls_ = 0;
  // In the order in which all ranks make theirs: they end in one order, since each end waits for
  // the other rank's (session::end).
  std::vector<channel> channels_;
  struct {
    std::string name;  // empty: it is not recorded
    std::uint64_t group = 0;
  } recorded_;
};

/// Some communicator of ranks with a GPU each.
using any_communicator = basic_any_communicator<cuda::stream>;

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator> && registers_memory<communicator>);

}  // namespace parallel::nccl

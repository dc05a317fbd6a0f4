// nccl::communicator: ranks with a GPU each, which exchange its memory by NCCL.
//
// Operations are enqueued on a CUDA stream; no host thread waits for another rank, except while
// communicators are made. NCCL runs the operations of one communicator one after the other, even
// if they are enqueued on different streams. Messages between neighbours, which must not wait for
// each other, therefore have a communicator of two ranks for each direction (connect_neighbours),
// and other sends are made in one call with the receives (call_group). Sums of floats are in NCCL's
// order; reductions that NCCL lacks (tree_sum, wide_sum, max and min of floats with their NaN) are
// gathered and combined by our own kernel, in rank order. Calls are noted in a flight recorder, if
// there is one: a call "runs" when the stream has reached it and the previous call on its
// communicator has completed, as far as the watchdog has seen. docs/nccl.md lists NCCL's rules and
// where the code follows them.
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
#include <parallel/comm/detail/subgroup.hpp>
#include <parallel/comm/nccl/calls.hpp>
#include <parallel/comm/nccl/comm_stream.hpp>
#include <parallel/comm/nccl/error.hpp>
#include <parallel/comm/nccl/session.hpp>
#include <parallel/comm/registered_memory.hpp>

namespace parallel::nccl {

/// The id that all ranks of a world must receive; one of them makes it. Throws `error` when NCCL
/// finds no network interface.
[[nodiscard]] inline ncclUniqueId make_unique_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

class communicator : public collectives<communicator, cuda::stream> {
 public:
  /// Sends and receives may be members of one call (call_group), in which none waits for another.
  static constexpr bool groups_messages = true;

  /// Rank `rank` of `size`, on the current GPU, which no other rank may use. Collective and
  /// blocking. Throws `error` when NCCL fails, or when not all ranks arrive before the deadline.
  communicator(ncclUniqueId const& id, int rank, int size, communicator_options options = {},
               std::shared_ptr<notice_board> board = nullptr)
      : session_(std::make_shared<session>(rank, options, std::move(board))), rank_(rank) {
    require(size >= 1 && rank >= 0 && rank < size, "nccl::communicator: rank ", rank,
            " is not one of ", size);
    for (int r = 0; r < size; ++r) ranks_.push_back(r);
    auto const call = [&](ncclComm_t* comm, ncclConfig_t* config) {
      return ncclCommInitRankConfig(comm, size, id, rank, config);
    };
    member_ = size > 1 ? session_->make({}, "ncclCommInitRankConfig", nullptr, call)
                       : session_->add_single({});
    if (size > 1) exchange_site_ = std::make_shared<exchange_site>(session_->device(), size);
    join_recorded_group();
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int world_rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::string_view name() const { return name_; }

  /// Ends all communicators of this rank, and those of the other ranks that share its notice board.
  void abort(std::string const& reason) { session_->abort(reason); }
  /// The reason why this rank must stop waiting, if it has heard of an abort (`tells_aborts`).
  [[nodiscard]] std::optional<std::string> abort_reason() { return session_->abort_reason(); }

  /// Enqueues `op`. While `s` is captured, the operation becomes a part of the graph: the code that
  /// runs the graph keeps the memory alive, and the watchdog does not watch the graph's waits.
  request_type submit(cuda::stream& s, operation const& op) {
    session_->throw_if_aborted();
    cuda::device_scope const scope(session_->device());
    auto notes = note(op);
    bool const captured = s.is_capturing();
    std::optional<cuda::event> begins;
    if (!notes.empty() && !captured) begins = s.record();
    notes.set_state(call_state::running);  // the host may block in the call
    auto const position = is_message(op.kind) ? enqueue_message(s, op) : enqueue(s, op);
    notes.set_state(call_state::waiting);
    auto owners = std::make_shared<parallel::detail::buffer_owners>();
    std::weak_ptr<parallel::detail::buffer_owners> const weak = owners;
    auto completion = s.record();
    if (!captured)
      session_->expect(*position.owner, {completion, op, position.number, std::move(owners),
                                         std::move(notes), std::move(begins)});
    return {std::move(completion), weak, {session_, world_rank(rank_)}, op};
  }

  /// A rendezvous of all ranks by an all_gather, on the calling thread; see `has_submit`.
  [[nodiscard]] signature_exchange open_exchange(cuda::stream const* s = nullptr) {
    require(s == nullptr, "nccl: signatures are exchanged by the calling thread alone");
    return [self = *this](signature const& local) mutable { return self.gather_signatures(local); };
  }

  /// See `has_split`. A sub-communicator of one rank has no NCCL communicator.
  [[nodiscard]] communicator split(coloring const& rank_colors, std::string name = {}) {
    auto const colors =
        parallel::detail::colors_of(rank_colors, rank_, size(), [&] { return open_exchange(); });
    require(
        colors[static_cast<std::size_t>(rank_)] == rank_colors.color_of(rank_),
        "nccl: the color of this rank has changed while the ranks gathered their colors; NCCL or "
        "its network is broken");
    auto const subgroup = parallel::detail::subgroup_of(colors, rank_);
    communicator out(session_, subgroup.rank, std::move(name));
    for (int const member_rank : subgroup.ranks) out.ranks_.push_back(world_rank(member_rank));
    out.exchange_site_ = exchange_site_;
    out.member_ = split_off(colors, out.name_);
    if (!out.member_) out.member_ = session_->add_single(out.name_);
    out.join_recorded_group();
    return out;
  }

  /// See parallel::connect_neighbours. Makes a communicator of two ranks for each direction between
  /// neighbours, in two rounds, or three where the number of ranks is odd. Each carries a first
  /// message immediately: NCCL connects the two ranks at their first message, and their hosts wait
  /// for each other meanwhile, which would be a deadlock if both sent before they receive.
  void connect_neighbours() {
    int const n = size();
    if (n == 1 || !channels_.empty()) return;
    int const edges = n == 2 ? 1 : n;  // edge e: between ranks e and e + 1
    for (int round = 0; round < 3; ++round) {
      std::vector<int> colors(static_cast<std::size_t>(n), -1);
      for (int e = 0; e < edges; ++e) {
        bool const is_last_of_odd = n % 2 == 1 && e == n - 1;
        if ((is_last_of_odd ? 2 : e % 2) != round) continue;
        colors[static_cast<std::size_t>(e)] = colors[static_cast<std::size_t>((e + 1) % n)] = e;
      }
      for (bool const forward : {true, false}) {
        auto channel_member = split_off(colors, concat(name_, forward ? " forward" : " back"));
        int const e = colors[static_cast<std::size_t>(rank_)];
        if (!channel_member) continue;
        int const peer = e == rank_ ? (e + 1) % n : e;
        bool const sends = (e == rank_) == forward;
        channels_.push_back({peer, sends, std::move(channel_member)});
        carry_first_message(peer, sends);
      }
    }
  }

  /// A source of exchanged memory for a device; such memory is registered as windows. It may
  /// outlive the communicator.
  [[nodiscard]] memory_source exchanged_memory() const { return session_->exchanged_memory(); }

  /// See `registers_memory`. Before it ends a registration, it waits for the operations that were
  /// enqueued on this communicator until then. Registers nothing for a single rank, or with
  /// NCCL_LOCAL_REGISTER=0.
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    if (size() == 1 || memory.empty()) return {};
    return session_->register_memory(member_, memory);
  }

 private:
  struct channel {
    int peer = 0;
    bool sends = false;
    std::shared_ptr<member> owner;
    std::uint64_t calls = 0;
  };

  /// The stream and scratch memory for exchanges of signatures between `ranks` ranks. It is made
  /// before any exchange, since nothing may be allocated while exchanges are under way. Used by one
  /// thread at a time.
  struct exchange_site {
    exchange_site(int device, int ranks) : stream({.device = device}) {
      static_cast<void>(stream.scratch((static_cast<std::size_t>(ranks) + 1) * sizeof(signature)));
    }
    cuda::stream stream;
  };

  communicator(std::shared_ptr<session> shared_session, int rank, std::string name)
      : session_(std::move(shared_session)), name_(std::move(name)), rank_(rank) {}

  /// The communicator of this rank's color; null when the rank would be alone or has no color (-1).
  /// If that holds for all ranks, NCCL is not called. Ranks keep their order. A rank that would be
  /// alone makes a temporary communicator: aborting a split that made none there
  /// (NCCL_SPLIT_NOCOLOR) crashes NCCL.
  [[nodiscard]] std::shared_ptr<member> split_off(std::vector<int> const& colors,
                                                  std::string const& name) {
    std::map<int, int> sizes;
    bool is_needed = false;
    for (int const color : colors)
      if (color >= 0 && ++sizes[color] > 1) is_needed = true;
    if (!is_needed) return nullptr;
    int const color = colors[static_cast<std::size_t>(rank_)];
    bool const is_alone = color < 0 || sizes[color] == 1;
    // The color for NCCL is the first rank of the sub-communicator.
    int const group_color =
        is_alone ? rank_ : static_cast<int>(std::ranges::find(colors, color) - colors.begin());
    auto const notes = note({.kind = operation_kind::split, .peer = color});
    notes.set_state(call_state::running);
    auto out = session_->make(
        name, "ncclCommSplit", member_->comm, [&](ncclComm_t* comm, ncclConfig_t* config) {
          return ncclCommSplit(member_->comm, group_color, rank_, comm, config);
        });
    notes.set_state(call_state::completed);
    return is_alone ? nullptr : out;
  }

  /// The communicator on which an operation runs, and the operation's number among its calls.
  struct call_position {
    std::shared_ptr<member> owner;
    std::uint64_t number = 0;
  };

  [[nodiscard]] call_position enqueue(cuda::stream& s, operation const& op) {
    call_position const position{member_, calls_++};
    if (size() == 1) {
      for_each_member(op, [&](operation const& member) {
        detail::run_single({nullptr, 0, 1, s}, member);
      });
      return position;
    }
    std::size_t bytes = 0;
    for_each_member(op,
                    [&](operation const& member) { bytes += detail::scratch_of(member, size()); });
    detail::execution execution{member_->comm, rank_, size(), s,
                                bytes > 0 ? s.scratch(bytes) : nullptr};
    std::byte* const scratch = execution.scratch;
    auto const for_each_with_scratch = [&](auto const& f) {
      execution.scratch = scratch;
      for_each_member(op, [&](operation const& member) {
        f(member);
        execution.scratch += detail::scratch_of(member, size());
      });
    };
    static_cast<void>(s.run(to_string(op.kind).data(), [&] {
      group({execution.comm}, to_string(op.kind), op.caller, [&] {
        ncclResult_t first_failure = ncclSuccess;
        for_each_with_scratch([&](operation const& member) {
          if (auto const result = detail::enqueue_calls(execution, member);
              first_failure == ncclSuccess)
            first_failure = result;
        });
        return first_failure;
      });
      return cudaSuccess;
    }));
    for_each_with_scratch(
        [&](operation const& member) { detail::finish_combination(execution, member); });
    return position;
  }

  [[nodiscard]] call_position enqueue_message(cuda::stream& s, operation const& op) {
    bool const sends = op.kind == operation_kind::send;
    auto const found = std::ranges::find_if(
        channels_, [&](auto const& c) { return c.peer == op.peer && c.sends == sends; });
    require(found != channels_.end(), to_string(op.kind), " at ", op.caller,
            ": there is no channel ", sends ? "to" : "from", " rank ", op.peer,
            name_.empty() ? "" : " of " + name_,
            ": call connect_neighbours before the first message, and send to neighbours only");
    auto& channel = *found;
    operation pair_op = op;
    pair_op.peer = (op.peer < rank_) ? 0 : 1;  // the other rank of the pair, which is in rank order
    ncclComm_t const comm = channel.owner->comm;
    static_cast<void>(s.run(to_string(op.kind).data(), [&] {
      group({comm}, to_string(op.kind), op.caller, [&] {
        return detail::enqueue_calls({comm, 0, 2, s}, pair_op);
      });
      return cudaSuccess;
    }));
    return {channel.owner, channel.calls++};
  }

  void carry_first_message(int peer, bool sends) {
    cuda::device_scope const scope(session_->device());
    cuda::stream s({.device = session_->device()});
    std::span<std::byte> const message(s.scratch(1), 1);
    if (sends)
      send(s, std::span<std::byte const>(message), peer, 0).wait();
    else
      recv(s, message, peer, 0).wait();
  }

  /// Notes a call in the recorder, if there is one; a communicator of one rank notes no calls.
  [[nodiscard]] call_notes note(operation op) const {
    if (recorded_.name.empty()) return {};
    return {session_->recorder(), *this, recorded_.name, recorded_.group, op};
  }

  /// Joins the group under a name that differs from the host communicator's for the same ranks.
  void join_recorded_group() {
    if (size() == 1 || !session_->recorder()) return;
    recorded_.name = name_.empty() ? "NCCL" : "NCCL " + name_;
    recorded_.group =
        group_number(recorded_.name, size(), [this](int rank) { return world_rank(rank); });
    session_->recorder()->join_group(recorded_.group);
  }

  template <class Calls>
  void group(std::vector<ncclComm_t> const& comms, std::string_view name, call_site caller,
             Calls calls) {
    session_->run(
        comms, name,
        [&] {
          check(ncclGroupStart(), "ncclGroupStart", comms.front(), caller);
          ncclResult_t result = ncclInvalidArgument;
          try {
            result = calls();
          } catch (...) {
            static_cast<void>(ncclGroupEnd());
            throw;
          }
          auto const end = ncclGroupEnd();
          return result != ncclSuccess && result != ncclInProgress ? result : end;
        },
        caller);
  }

  [[nodiscard]] std::vector<signature> gather_signatures(signature const& local) {
    if (size() == 1) return {local};
    cuda::device_scope const scope(session_->device());
    cuda::stream& s = exchange_site_->stream;
    auto const n = static_cast<std::size_t>(size());
    auto* const gathered = s.scratch((n + 1) * sizeof local);
    auto* const own_part = gathered + n * sizeof local;
    cuda::check(cudaMemcpyAsync(own_part, &local, sizeof local, cudaMemcpyDefault, s.get()),
                "cudaMemcpyAsync");
    all_gather(s, std::span<std::byte>(gathered, n * sizeof local),
               std::span<std::byte const>(own_part, sizeof local))
        .wait();
    std::vector<signature> out(n);
    cuda::check(cudaMemcpyAsync(out.data(), gathered, n * sizeof local, cudaMemcpyDefault, s.get()),
                "cudaMemcpyAsync");
    s.synchronize();
    return out;
  }

  std::shared_ptr<session> session_;
  std::string name_;
  std::vector<int> ranks_;                        // world ranks of the group
  int rank_ = 0;                                  // in the group
  std::shared_ptr<exchange_site> exchange_site_;  // shared with sub-communicators; null: one rank
  std::shared_ptr<member> member_;
  std::uint64_t calls_ = 0;
  // All ranks make their channels in the same order, and so end them in the same order: the end of
  // a channel waits for its end on the other rank (session::end).
  std::vector<channel> channels_;
  struct {
    std::string name;  ///< empty: calls are not recorded
    std::uint64_t group = 0;
  } recorded_;
};

/// Any communicator of ranks with a GPU each.
using any_communicator = basic_any_communicator<cuda::stream>;

static_assert(has_collectives<communicator, float> && has_submit<communicator> &&
              has_split<communicator> && registers_memory<communicator>);

}  // namespace parallel::nccl

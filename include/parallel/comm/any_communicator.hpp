// any_communicator: a communicator whose type is chosen at run time, for one type of stream.
//
// The only type erasure in the library: programs are compiled once for this type, and the command
// line decides whether ranks are threads, MPI processes or a single one. Operations are values
// already, so the cost is one virtual call each.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <parallel/comm/collectives.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/registered_memory.hpp>

namespace parallel {

namespace detail {

template <class S>
struct require_stream {
  static_assert(stream<S>,
                "the stream lacks what parallel::stream (parallel/device/concepts.hpp) asks for: a "
                "type event_type, record(), wait(event) and synchronize()");
  static constexpr bool value = stream<S>;
};

}  // namespace detail

/// A stream; for any other type the compiler says what it lacks.
template <class S>
concept checked_stream = detail::require_stream<S>::value;

/// A communicator that enqueues on a Stream.
template <checked_stream Stream>
class basic_any_communicator : public collectives<basic_any_communicator<Stream>, Stream> {
 public:
  using request_type = request_of<Stream>;

  /// Streams that do not run tasks of the host belong to GPUs.
  static constexpr bool groups_messages = !task_stream<Stream>;

  /// Owns `inner`.
  template <class C>
  requires(has_submit<C>&& has_split<C>&& std::same_as<typename C::stream_type, Stream> &&
           !std::same_as<C, basic_any_communicator> &&
           (!groups_messages ||
            parallel::groups_messages<C>)) explicit basic_any_communicator(C inner)
      : inner_(std::make_unique<model<C>>(std::move(inner))) {}

  [[nodiscard]] int rank() const { return inner_->rank(); }
  [[nodiscard]] int size() const { return inner_->size(); }
  [[nodiscard]] int world_rank(int rank) const { return inner_->world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return inner_->name(); }
  void abort(std::string const& reason) { inner_->abort(reason); }
  /// See `tells_aborts`; nothing for a communicator that does not report aborts.
  [[nodiscard]] std::optional<std::string> abort_reason() { return inner_->abort_reason(); }

  /// Enqueues `op`.
  request_type submit(Stream& s, operation const& op) { return inner_->submit(s, op); }

  [[nodiscard]] signature_exchange open_exchange(Stream const* s = nullptr) {
    return inner_->open_exchange(s);
  }

  /// See `has_split`.
  [[nodiscard]] basic_any_communicator split(coloring const& colors, std::string name = {}) {
    return inner_->split(colors, std::move(name));
  }

  /// See parallel::connect_neighbours.
  void connect_neighbours() { inner_->connect_neighbours(); }

  /// See `registers_memory`; nothing for a communicator that registers no memory.
  [[nodiscard]] registered_memory register_memory(buffer<std::byte> const& memory) {
    return inner_->register_memory(memory);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual int world_rank(int rank) const = 0;
    virtual void abort(std::string const& reason) = 0;
    [[nodiscard]] virtual std::optional<std::string> abort_reason() = 0;
    virtual request_type submit(Stream& s, operation const& op) = 0;
    virtual signature_exchange open_exchange(Stream const* s) = 0;
    [[nodiscard]] virtual std::string_view name() const = 0;
    virtual basic_any_communicator split(coloring const& colors, std::string name) = 0;
    virtual void connect_neighbours() = 0;
    virtual registered_memory register_memory(buffer<std::byte> const& memory) = 0;
  };

  template <class C>
  struct model final : interface {
    explicit model(C c) : inner(std::move(c)) {}
    [[nodiscard]] int rank() const override { return inner.rank(); }
    [[nodiscard]] int size() const override { return inner.size(); }
    [[nodiscard]] int world_rank(int rank) const override { return inner.world_rank(rank); }
    void abort(std::string const& reason) override { inner.abort(reason); }
    [[nodiscard]] std::optional<std::string> abort_reason() override {
      if constexpr (tells_aborts<C>)
        return inner.abort_reason();
      else
        return std::nullopt;
    }
    request_type submit(Stream& s, operation const& op) override { return inner.submit(s, op); }
    signature_exchange open_exchange(Stream const* s) override { return inner.open_exchange(s); }
    [[nodiscard]] std::string_view name() const override { return inner.name(); }
    basic_any_communicator split(coloring const& colors, std::string name) override {
      return basic_any_communicator(inner.split(colors, std::move(name)));
    }
    void connect_neighbours() override { parallel::connect_neighbours(inner); }
    registered_memory register_memory(buffer<std::byte> const& memory) override {
      return parallel::register_memory(inner, memory);
    }
    C inner;
  };

  std::unique_ptr<interface> inner_;
};

template <class C>
basic_any_communicator(C) -> basic_any_communicator<typename C::stream_type>;

/// For the backends that enqueue on host streams: a single rank, threads, MPI.
using any_communicator = basic_any_communicator<host::stream>;

static_assert(has_collectives<any_communicator, float> && has_submit<any_communicator> &&
              has_split<any_communicator>);

}  // namespace parallel

#include "text/jinja_library.h"

#include <algorithm>
#include <ctime>

#include "text/jinja_print.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {

Bound::Bound(std::string_view function, Arguments& arguments, std::initializer_list<std::string_view> names,
             size_t required)
    : function_(function), values_(names.size(), Value::missing()) {
  if (arguments.positional.size() > names.size())
    fail(std::string(function) + "() takes at most " + std::to_string(names.size()) + " argument(s), " +
         std::to_string(arguments.positional.size()) + " were given");
  std::move(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) fail(std::string(function) + "() has no argument named '" + name + "'");
    Value& slot = values_[static_cast<size_t>(found - names.begin())];
    if (!slot.is_missing()) fail(std::string(function) + "() got two values for the argument '" + name + "'");
    slot = std::move(value);
  }
  for (size_t i = 0; i < required; ++i)
    if (values_[i].is_missing())
      fail(std::string(function) + "() needs the argument '" + std::string(names.begin()[i]) + "'");
}

int64_t Bound::integer(size_t i, int64_t otherwise) const {
  return has(i) ? index_of(values_[i], "an argument") : otherwise;
}

std::string_view Bound::string(size_t i, std::string_view otherwise) const {
  if (!has(i)) return otherwise;
  if (values_[i].is_undefined()) fail_undefined(values_[i]);
  if (!values_[i].is_string()) fail(std::string(function_) + "() expected a string, found " + type_name(values_[i]));
  return values_[i].text();
}

AttributePath::AttributePath(Renderer& renderer, const Value& attribute) {
  if (attribute.is_missing() || attribute.is_none()) return;
  if (!attribute.is_string()) {
    if (!attribute.is_integral()) fail("an attribute name must be a string or an integer");
    steps_.push_back(attribute);
    return;
  }
  const std::string_view path = attribute.text();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view step = path.substr(begin, end - begin);
    const bool digits = !step.empty() && step.find_first_not_of("0123456789") == step.npos;
    const auto number = digits ? parse_int(step, 10) : std::nullopt;
    steps_.push_back(number ? Value::integer(*number) : renderer.heap().string(std::string(step)));
    begin = end + 1;
  }
}

Value AttributePath::operator()(Renderer& renderer, Value value, const Value& otherwise) const {
  for (const Value& step : steps_) {
    value = renderer.item(value, step);
    if (value.is_undefined() && !otherwise.is_missing()) value = otherwise;
  }
  return value;
}

FilterFunction find_filter(std::string_view name) {
  for (const auto& table : {text_filters(), sequence_filters(), number_filters()})
    for (const FilterEntry& entry : table)
      if (entry.name == name) return entry.filter;
  return nullptr;
}

namespace {

Value global_range(Renderer& r, Arguments& a) {
  const Bound b("range", a, {"start", "stop", "step"}, 1);
  const auto whole = [](const Value& v) -> Int {
    if (v.is_undefined()) fail_undefined(v);
    if (!v.is_integral()) fail(std::string("'") + type_name(v) + "' object cannot be interpreted as an integer");
    constexpr Int kMost = Int{1} << 100;
    if (v.as_int() > kMost || v.as_int() < -kMost) fail("range() takes smaller integers");
    return v.as_int();
  };
  const Int start = b.has(1) ? whole(b[0]) : 0, stop = whole(b[b.has(1) ? 1 : 0]), step = b.has(2) ? whole(b[2]) : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  Int count = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (step > 0 ? stop <= start : stop >= start) count = 0;
  constexpr Int kMaxRange = 100'000;  // the sandbox's limit
  if (count > kMaxRange) fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return r.heap().make<RangeObject>(start, stop, step, count);
}

void add_pairs(Renderer& r, DictObject& dict, const Value& source) {
  if (source.is_undefined()) fail_undefined(source);
  if (source.is(Kind::dict)) {
    for (const auto& [key, value] : source.as<DictObject>().entries) dict.set(key, value);
    return;
  }
  Iterator pairs(r.heap(), source);
  for (Value item; pairs.next(item);) {
    const auto pair = collect(r.heap(), item);
    if (pair.size() != 2)
      fail("dictionary update sequence element has length " + std::to_string(pair.size()) + "; 2 is required");
    dict.set(pair[0], pair[1]);
  }
}

Value global_dict(Renderer& r, Arguments& a) {
  const auto dict = r.heap().make<DictObject>();
  if (a.positional.size() > 1) fail("dict expected at most 1 argument, got " + std::to_string(a.positional.size()));
  if (!a.positional.empty()) add_pairs(r, *dict, a.positional[0]);
  for (auto& [name, value] : a.named) dict->set(r.heap().string(name), std::move(value));
  return r.heap().seal(dict);
}

Value global_namespace(Renderer& r, Arguments& a) {
  const Value dict = global_dict(r, a);
  const auto space = r.heap().make<NamespaceObject>();
  for (const auto& [key, value] : dict.as<DictObject>().entries)
    if (key.is_string()) space->attributes.emplace_back(std::string(key.text()), value);
  r.heap().charge(space->attributes.size() * 64);
  space->bytes += space->attributes.size() * 64;
  return space;
}

Value global_cycler(Renderer& r, Arguments& a) {
  if (!a.named.empty()) fail("cycler() takes no named arguments");
  if (a.positional.empty()) fail("at least one item has to be provided");
  return r.heap().make<CyclerObject>(std::move(a.positional));
}

Value global_joiner(Renderer& r, Arguments& a) {
  const Bound b("joiner", a, {"sep"}, 0);
  return r.heap().make<JoinerObject>(b.has(0) ? b[0] : r.heap().string(", "));
}

Value global_raise_exception(Renderer& r, Arguments& a) {
  const Bound b("raise_exception", a, {"message"}, 1);
  fail(r.text(b[0]));
}

Value global_strftime_now(Renderer& r, Arguments& a) {
  const Bound b("strftime_now", a, {"format"}, 1);
  const std::string format(b.string(0));
  if (format.size() > 1000) fail("strftime_now() takes a shorter format");
  const std::time_t now = r.now();
  std::tm local{};
  if (!localtime_r(&now, &local)) fail("strftime_now(): the time cannot be represented");
  std::string expanded;  // microseconds, which strftime does not know, are zero; a zero byte would end the format
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\0') fail("embedded null character");
    if (format[i] == '%' && i + 1 < format.size()) {
      if (format[++i] == 'f') expanded += "000000";
      else (expanded += '%') += format[i];
    } else {
      expanded += format[i];
    }
  }
  if (expanded.empty()) return r.heap().string("");
  std::string out(expanded.size() * 40 + 100, '\0');
  out.resize(std::strftime(out.data(), out.size(), expanded.c_str(), &local));
  if (!valid_utf8(out)) fail("strftime_now(): the format gives text that is not UTF-8");
  return r.heap().string(std::move(out));
}

Value loop_cycle(Renderer& r, const Value& self, Arguments& a) {
  if (a.positional.empty() || !a.named.empty()) fail("no items for cycling given");
  const auto index = static_cast<size_t>(self.as<LoopObject>().index);
  (void)r;
  return a.positional[index % a.positional.size()];
}

Value loop_changed(Renderer& r, const Value& self, Arguments& a) {
  auto& loop = self.as<LoopObject>();
  Value now = r.heap().tuple(std::move(a.positional));
  const bool changed = loop.changed.is_missing() || !equal(loop.changed, now);
  if (changed) loop.changed = std::move(now);
  return Value::boolean(changed);
}

Value cycler_next(Renderer&, const Value& self, Arguments& a) {
  auto& cycler = self.as<CyclerObject>();
  if (!a.positional.empty() || !a.named.empty()) fail("next() takes no arguments");
  if (cycler.items.empty()) return Value();
  Value item = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Renderer&, const Value& self, Arguments&) {
  self.as<CyclerObject>().position = 0;
  return Value();
}

Value loop_attribute(Renderer& r, const Value& self, std::string_view name) {
  auto& loop = self.as<LoopObject>();
  const auto number = [](int64_t n) { return Value::integer(n); };
  if (name == "index") return number(loop.index + 1);
  if (name == "index0") return number(loop.index);
  if (name == "first") return Value::boolean(loop.index == 0);
  if (name == "last") return Value::boolean(!loop.has_next());
  if (name == "length") return number(loop.length());
  if (name == "revindex") return number(loop.length() - loop.index);
  if (name == "revindex0") return number(loop.length() - loop.index - 1);
  if (name == "depth") return number(loop.depth + 1);
  if (name == "depth0") return number(loop.depth);
  if (name == "previtem") return loop.index == 0 ? r.heap().undefined("there is no previous item") : loop.previous;
  if (name == "nextitem") return loop.has_next() ? loop.following : r.heap().undefined("there is no next item");
  return Value::missing();
}

Value macro_attribute(Renderer& r, const Value& self, std::string_view name) {
  const MacroDefinition& definition = *self.as<MacroObject>().definition;
  if (name == "name") return definition.name.empty() ? Value() : r.heap().string(definition.name);
  if (name == "catch_kwargs") return Value::boolean(definition.uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(definition.uses_varargs);
  if (name == "caller") return Value::boolean(definition.uses_caller);
  if (name != "arguments") return Value::missing();
  std::vector<Value> names;
  for (const auto& parameter : definition.parameters) names.push_back(r.heap().string(parameter.first));
  return r.heap().tuple(std::move(names));
}

constexpr MethodEntry kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr MethodEntry kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

}  // namespace

const MethodEntry* find_object_method(const Value& self, std::string_view name) {
  const auto search = [name](const auto& table) -> const MethodEntry* {
    for (const MethodEntry& entry : table)
      if (entry.name == name) return &entry;
    return nullptr;
  };
  if (self.is(Kind::loop)) return search(kLoopMethods);
  return self.is(Kind::cycler) ? search(kCyclerMethods) : nullptr;
}

Value find_attribute(Renderer& r, const Value& object, std::string_view name) {
  if (const MethodEntry* entry = find_method(object, name))
    return r.heap().make<MethodObject>(entry->name, object, entry->method);
  switch (object.kind()) {
    case Kind::name_space: {
      const Value* found = object.as<NamespaceObject>().find(name);
      return found ? *found : Value::missing();
    }
    case Kind::loop: return loop_attribute(r, object, name);
    case Kind::macro: return macro_attribute(r, object, name);
    case Kind::cycler: {
      const auto& cycler = object.as<CyclerObject>();
      return name == "current" && !cycler.items.empty() ? cycler.items[cycler.position] : Value::missing();
    }
    case Kind::tuple: {
      const auto& list = object.as<ListObject>();
      if (list.grouped && name == "grouper") return list.items[0];
      if (list.grouped && name == "list") return list.items[1];
      return Value::missing();
    }
    case Kind::boolean:
    case Kind::integer:
      if (name == "real" || name == "numerator") return Value::integer(object.as_int());
      if (name == "imag") return Value::integer(0);
      return name == "denominator" ? Value::integer(1) : Value::missing();
    case Kind::floating:
      if (name == "real") return object;
      return name == "imag" ? Value::floating(0) : Value::missing();
    case Kind::range: {
      const auto& range = object.as<RangeObject>();
      if (name == "start") return Value::integer(range.start);
      if (name == "stop") return Value::integer(range.stop);
      return name == "step" ? Value::integer(range.step) : Value::missing();
    }
    default: return Value::missing();
  }
}

void define_globals(Renderer& r) {
  constexpr std::pair<const char*, Function> kGlobals[] = {{"range", global_range},
                                                           {"dict", global_dict},
                                                           {"namespace", global_namespace},
                                                           {"cycler", global_cycler},
                                                           {"joiner", global_joiner},
                                                           {"raise_exception", global_raise_exception},
                                                           {"strftime_now", global_strftime_now}};
  for (const auto& [name, function] : kGlobals)
    if (r.mentions(name)) r.define(name, r.heap().make<FunctionObject>(name, function));
}

}  // namespace drafthorse::jinja

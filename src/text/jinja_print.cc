#include "text/jinja_print.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja_ast.h"
#include "text/jinja_operations.h"
#include "text/jinja_runtime.h"
#include "text/jinja_text.h"

namespace drafthorse::jinja {
namespace {

constexpr int kMaxNesting = 400;

struct Printer {
  Heap& heap;
  std::string& out;
  int depth = 0;

  void items(const std::vector<Value>& values, bool trailing_comma) {
    bool first = true;
    for (const Value& value : values) {
      if (!first) out += ", ";
      first = false;
      print(value);
    }
    if (trailing_comma) out += ',';
  }

  void dict(const DictObject& dict) {
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
      if (!first) out += ", ";
      first = false;
      print(key);
      out += ": ";
      print(value);
    }
  }

  void view(const ViewObject& view) {
    out += view.what == ViewOf::keys ? "dict_keys([" : view.what == ViewOf::values ? "dict_values([" : "dict_items([";
    bool first = true;
    for (const auto& [key, value] : view.dict->entries) {
      if (!first) out += ", ";
      first = false;
      if (view.what == ViewOf::items) out += '(';
      if (view.what != ViewOf::values) print(key);
      if (view.what == ViewOf::items) out += ", ";
      if (view.what != ViewOf::keys) print(value);
      if (view.what == ViewOf::items) out += ')';
    }
    out += "])";
  }

  void print(const Value& value) {
    heap.spend(1);
    if (out.size() > heap.limits().output) fail("the template's output is longer than its limit");
    if (++depth > kMaxNesting) fail("a value is nested too deeply to print");
    switch (value.kind()) {
      case Kind::string: {
        const auto& string = value.as<StringObject>();
        heap.spend_on(string.text.size(), 8);
        if (string.markup) out += "Markup(";
        out += quoted(string.text);
        if (string.markup) out += ')';
        break;
      }
      case Kind::list:
        out += '[';
        items(value.as<ListObject>().items, false);
        out += ']';
        break;
      case Kind::tuple: {
        const auto& list = value.as<ListObject>().items;
        out += '(';
        items(list, list.size() == 1);
        out += ')';
        break;
      }
      case Kind::dict:
        out += '{';
        dict(value.as<DictObject>());
        out += '}';
        break;
      case Kind::view: view(value.as<ViewObject>()); break;
      case Kind::name_space:
        out += "<Namespace {";
        for (bool first = true; const auto& [name, attribute] : value.as<NamespaceObject>().attributes) {
          if (!first) out += ", ";
          first = false;
          out += quoted(name) + ": ";
          print(attribute);
        }
        out += "}>";
        break;
      case Kind::undefined: out += "Undefined"; break;
      default: scalar(value);
    }
    --depth;
  }

  void scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::none: out += "None"; break;
      case Kind::boolean: out += value.as_bool() ? "True" : "False"; break;
      case Kind::integer: out += int_text(value.as_int()); break;
      case Kind::floating: out += float_text(value.as_double()); break;
      case Kind::range: {
        const auto& range = value.as<RangeObject>();
        out += "range(" + int_text(range.start) + ", " + int_text(range.stop);
        if (range.step != 1) out += ", " + int_text(range.step);
        out += ')';
        break;
      }
      case Kind::macro: {
        const std::string& name = value.as<MacroObject>().definition->name;
        out += "<Macro " + (name.empty() ? "anonymous" : quoted(name)) + ">";
        break;
      }
      case Kind::loop: out += loop_text(value.as<LoopObject>()); break;
      case Kind::generator: out += "<generator object>"; break;
      case Kind::function: out += "<function " + std::string(value.as<FunctionObject>().name) + ">"; break;
      case Kind::method: out += "<built-in method " + std::string(value.as<MethodObject>().name) + ">"; break;
      default: out += std::string("<") + type_name(value) + ">";
    }
  }
};

struct JsonPrinter {
  Heap& heap;
  const JsonOptions& options;
  std::string& out;
  int depth = 0;

  void string(std::string_view text) {
    heap.spend_on(text.size(), 16);
    out += '"';
    char buffer[16];
    for (size_t at = 0; at < text.size();) {
      const auto byte = static_cast<unsigned char>(text[at]);
      if (byte >= 0x80) {
        const size_t begin = at;
        const char32_t c = decode(text, at);
        if (!options.ensure_ascii) {
          out += text.substr(begin, at - begin);
        } else if (c < 0x10000) {
          snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
          out += buffer;
        } else {
          const unsigned rest = static_cast<unsigned>(c) - 0x10000;
          snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
          out += buffer;
        }
        continue;
      }
      ++at;
      if (byte == '"') out += "\\\"";
      else if (byte == '\\') out += "\\\\";
      else if (byte == '\n') out += "\\n";
      else if (byte == '\r') out += "\\r";
      else if (byte == '\t') out += "\\t";
      else if (byte == '\f') out += "\\f";
      else if (byte == '\b') out += "\\b";
      else if (byte < 0x20) {
        snprintf(buffer, sizeof buffer, "\\u%04x", byte);
        out += buffer;
      } else out += static_cast<char>(byte);
    }
    out += '"';
  }

  static std::string number(const Value& value) {
    if (value.is(Kind::integer)) return int_text(value.as_int());
    const double d = value.as_double();
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return float_text(d);
  }

  void key(const Value& key) {
    switch (key.kind()) {
      case Kind::string: return string(key.text());
      case Kind::none: out += "\"null\""; return;
      case Kind::boolean: out += key.as_bool() ? "\"true\"" : "\"false\""; return;
      case Kind::integer:
      case Kind::floating: out += '"' + number(key) + '"'; return;
      default: fail(std::string("keys must be str, int, float, bool or None, not ") + type_name(key));
    }
  }

  void line() {
    if (!options.indented) return;
    heap.spend(1 + static_cast<int64_t>(options.indent.size()) * depth / 32);
    heap.check(out.size() + options.indent.size() * static_cast<size_t>(depth));
    out += '\n';
    for (int i = 0; i < depth; ++i) out += options.indent;
  }

  template <class Items, class Print>
  void group(char open, char close, const Items& items, Print&& print_item) {
    out += open;
    if (!items.empty()) {
      if (++depth > kMaxNesting) fail("a value is nested too deeply for tojson");
      bool first = true;
      for (const auto& item : items) {
        if (!first) out += options.item_separator;
        first = false;
        line();
        print_item(item);
      }
      --depth;
      line();
    }
    out += close;
  }

  void dict(const DictObject& dict) {
    auto entry = [this](const std::pair<Value, Value>& item) {
      key(item.first);
      out += options.key_separator;
      print(item.second);
    };
    if (!options.sort_keys) return group('{', '}', dict.entries, entry);
    auto sorted = dict.entries;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [this](const auto& a, const auto& b) { return less(heap, a.first, b.first); });
    group('{', '}', sorted, entry);
  }

  void print(const Value& value) {
    heap.spend(1);
    if (out.size() > heap.limits().output) fail("the template's output is longer than its limit");
    switch (value.kind()) {
      case Kind::none: out += "null"; return;
      case Kind::boolean: out += value.as_bool() ? "true" : "false"; return;
      case Kind::integer:
      case Kind::floating: out += number(value); return;
      case Kind::string: return string(value.text());
      case Kind::list:
      case Kind::tuple:
        return group('[', ']', value.as<ListObject>().items, [this](const Value& item) { print(item); });
      case Kind::dict: return dict(value.as<DictObject>());
      default: fail(std::string("Object of type ") + type_name(value) + " is not JSON serializable");
    }
  }
};

}  // namespace

void append_text(Heap& heap, std::string& out, const Value& value) {
  if (value.is_string()) {
    out += value.text();
  } else if (!value.is_undefined()) {
    Printer{heap, out}.print(value);
  }
}

std::string to_text(Heap& heap, const Value& value) {
  std::string out;
  append_text(heap, out, value);
  return out;
}

std::string representation(Heap& heap, const Value& value) {
  std::string out;
  Printer{heap, out}.print(value);
  return out;
}

std::string to_json(Heap& heap, const Value& value, const JsonOptions& options) {
  std::string out;
  JsonPrinter{heap, options, out}.print(value);
  return out;
}

}  // namespace drafthorse::jinja

package stormwright;

import java.lang.annotation.Annotation;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.validation.ConfigValidation;
import org.apache.storm.validation.ConfigValidationAnnotations.IsBoolean;
import org.apache.storm.validation.ConfigValidationAnnotations.IsImplementationOfClass;
import org.apache.storm.validation.ConfigValidationAnnotations.IsInteger;
import org.apache.storm.validation.ConfigValidationAnnotations.IsMapEntryType;
import org.apache.storm.validation.ConfigValidationAnnotations.IsNumber;
import org.apache.storm.validation.ConfigValidationAnnotations.IsPositiveNumber;
import org.apache.storm.validation.ConfigValidationAnnotations.IsString;
import org.apache.storm.validation.ConfigValidationAnnotations.IsStringList;
import org.apache.storm.validation.ConfigValidationAnnotations.IsStringOrStringList;
import org.apache.storm.validation.ConfigValidationAnnotations.IsType;
import org.apache.storm.validation.ConfigValidationAnnotations.NotNull;
import org.apache.storm.validation.NotConf;

/** The keys of Storm's configuration by the kind of value that its annotations accept, as JSON. */
public final class ConfigKinds {
    private ConfigKinds() {
    }

    public static void main(String[] args) throws IllegalAccessException {
        Map<String, Set<String>> keys = new TreeMap<>();
        for (Class<?> declared : ConfigValidation.getConfigClasses()) {
            for (Field field : declared.getFields()) {
                if (field.getType() == String.class && field.getAnnotation(NotConf.class) == null) {
                    String key = (String) field.get(null);
                    String kind = kind(field);
                    if (!kind.isEmpty()) {
                        keys.computeIfAbsent(kind, any -> new TreeSet<>()).add(key);
                    }
                    if (field.getAnnotation(NotNull.class) != null) {
                        keys.computeIfAbsent("not null", any -> new TreeSet<>()).add(key);
                    }
                }
            }
        }
        System.out.println(JSONValue.toJSONString(keys));
    }

    /** Empty for those with a validator of their own. */
    private static String kind(Field field) {
        IsPositiveNumber positive = field.getAnnotation(IsPositiveNumber.class);
        if (has(field, IsInteger.class)) {
            return positive == null ? "integer" : positive.includeZero() ? "count" : "positive count";
        }
        if (positive != null) {
            return positive.includeZero() ? "amount" : "positive number";
        }
        if (has(field, IsMapEntryType.class)) {
            boolean texts = field.getAnnotation(IsMapEntryType.class).valueType() == String.class;
            return texts ? "texts by name" : "numbers by name";
        }
        if (has(field, IsType.class)) {
            return field.getAnnotation(IsType.class).type() == Map.class ? "object" : "";
        }
        return has(field, IsBoolean.class) ? "flag"
                : has(field, IsNumber.class) ? "number"
                : has(field, IsStringList.class) ? "texts"
                : has(field, IsStringOrStringList.class) ? "text or texts"
                : has(field, IsString.class) || has(field, IsImplementationOfClass.class) ? "text" : "";
    }

    private static boolean has(Field field, Class<? extends Annotation> annotation) {
        return field.getAnnotation(annotation) != null;
    }
}

-- Statements of a small app, each with the second in which it was made. Made by examples/make.
0.000 SELECT name, number FROM contact WHERE id = ? -- [1]
0.107 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 1%']
    ORDER BY name LIMIT 10;
0.214 UPDATE contact SET seen = seen + 1 WHERE id = 47;
0.321 BEGIN; INSERT INTO contact (name) VALUES ('new 3'); COMMIT
0.428 SELECT name, number FROM contact WHERE id = ? -- [33]
0.535 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 5%']
    ORDER BY name LIMIT 10;
0.642 UPDATE contact SET seen = seen + 1 WHERE id = 19;
0.749 BEGIN; INSERT INTO contact (name) VALUES ('new 7'); COMMIT
0.806 SELECT name, number FROM contact WHERE id = ? -- [5]
0.913 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 9%']
    ORDER BY name LIMIT 10;
1.020 UPDATE contact SET seen = seen + 1 WHERE id = 51;
1.127 BEGIN; INSERT INTO contact (name) VALUES ('new 11'); COMMIT
1.234 SELECT name, number FROM contact WHERE id = ? -- [37]
1.341 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 3%']
    ORDER BY name LIMIT 10;
1.448 UPDATE contact SET seen = seen + 1 WHERE id = 23;
1.505 BEGIN; INSERT INTO contact (name) VALUES ('new 15'); COMMIT
1.612 SELECT name, number FROM contact WHERE id = ? -- [9]
1.719 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 7%']
    ORDER BY name LIMIT 10;
1.826 UPDATE contact SET seen = seen + 1 WHERE id = 55;
1.933 BEGIN; INSERT INTO contact (name) VALUES ('new 19'); COMMIT
2.040 SELECT name, number FROM contact WHERE id = ? -- [41]
2.147 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 1%']
    ORDER BY name LIMIT 10;
2.204 UPDATE contact SET seen = seen + 1 WHERE id = 27;
2.311 BEGIN; INSERT INTO contact (name) VALUES ('new 23'); COMMIT
2.418 SELECT name, number FROM contact WHERE id = ? -- [13]
2.525 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 5%']
    ORDER BY name LIMIT 10;
2.632 UPDATE contact SET seen = seen + 1 WHERE id = 59;
2.739 BEGIN; INSERT INTO contact (name) VALUES ('new 27'); COMMIT
2.846 SELECT name, number FROM contact WHERE id = ? -- [45]
2.903 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 9%']
    ORDER BY name LIMIT 10;
3.010 UPDATE contact SET seen = seen + 1 WHERE id = 31;
3.117 BEGIN; INSERT INTO contact (name) VALUES ('new 31'); COMMIT
3.224 SELECT name, number FROM contact WHERE id = ? -- [17]
3.331 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 3%']
    ORDER BY name LIMIT 10;
3.438 UPDATE contact SET seen = seen + 1 WHERE id = 3;
3.545 BEGIN; INSERT INTO contact (name) VALUES ('new 35'); COMMIT
3.602 SELECT name, number FROM contact WHERE id = ? -- [49]
3.709 SELECT id, name
    FROM contact
    WHERE name LIKE ?  -- ['contact 7%']
    ORDER BY name LIMIT 10;
3.816 UPDATE contact SET seen = seen + 1 WHERE id = 35;
3.923 BEGIN; INSERT INTO contact (name) VALUES ('new 39'); COMMIT
